package tools

import (
	"slices"

	"github.com/exthost/exthost/protocol"
)

// hold decides which extension holds each name: the extension that held it before, even while it offers no tools, else
// the only extension that wants the name. A name that several extensions want has no holder. An extension with tools
// gives up the names of the tools that it no longer offers.
func (c *Catalog) hold(list []described, prev *Catalog) {
	wanted, silent := make(map[string][]string), make(map[string]bool)
	for _, o := range list {
		silent[o.Extension] = len(o.candidates) == 0
		for _, t := range o.candidates {
			name := t.plain
			if len(name) > MaxName || slices.Contains(wanted[name], o.Extension) {
				name = hashedName(o.Extension, t.Name)
			}
			if by := wanted[name]; !slices.Contains(by, o.Extension) {
				wanted[name] = append(by, o.Extension)
			}
		}
	}
	c.holders = make(map[string]string, len(wanted))
	if prev != nil {
		for name, extension := range prev.holders {
			if silent[extension] || slices.Contains(wanted[name], extension) {
				c.holders[name] = extension
			}
		}
	}
	for name, by := range wanted {
		if _, held := c.holders[name]; held {
			continue
		}
		c.holders[name] = nobody
		if len(by) == 1 {
			c.holders[name] = by[0]
		}
	}
}

// nobody is the holder of a name that several extensions want. It is not a valid id.
const nobody = "\x00"

// contested returns why a tool cannot have a name that another extension claims, or nil. The tool must not get another
// name instead, because policies that match the holder's tools by a pattern would apply to it.
func (c *Catalog) contested(extension, tool, name string) *protocol.Diagnostic {
	holder, held := c.holders[name]
	if !held || holder == extension {
		return nil
	}
	whose, others := "belongs to "+holder, holder
	if holder == nobody {
		whose, others = "is that of a tool of another extension too, and neither had it before", "one of them"
	}
	d := diagnostic("tool_name_taken", "tool %q: its name %s %s", tool, name, whose)
	d.Hint = "rename the tool or the extension, or disable " + others
	return &d
}
