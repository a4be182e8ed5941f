package tools

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Generation returns the generation passed to [NewCatalog].
func (c *Catalog) Generation() uint64 { return c.generation }

// ListGeneration returns the generation since which the list of all tools is unchanged.
func (c *Catalog) ListGeneration() uint64 { return c.all.generation }

// Lookup finds a tool by its registered name.
func (c *Catalog) Lookup(name string) (*Entry, bool) {
	e, ok := c.byName[name]
	return e, ok
}

// LookupIn finds a tool by extension and own name.
func (c *Catalog) LookupIn(extension, tool string) (*Entry, bool) {
	es := c.Extension(extension)
	i, ok := slices.BinarySearchFunc(es, tool, func(e *Entry, tool string) int { return cmp.Compare(e.Tool, tool) })
	if !ok {
		return nil, false
	}
	return es[i], true
}

// Withheld finds a withheld tool by its registered name if extension is "", else by its own name.
func (c *Catalog) Withheld(extension, name string) (*Entry, bool) {
	if extension == "" {
		e, ok := c.withheld[name]
		return e, ok
	}
	for _, registered := range c.withheldOf[extension] {
		if e := c.withheld[registered]; e.Tool == name {
			return e, true
		}
	}
	return nil, false
}

// WithheldOf returns the registered names of an extension's withheld tools, sorted.
func (c *Catalog) WithheldOf(extension string) []string {
	return slices.Sorted(slices.Values(c.withheldOf[extension]))
}

// Entries returns all tools, sorted by Name. Do not modify the slice.
func (c *Catalog) Entries() []*Entry { return c.all.all() }

// Extension returns the tools of one extension, sorted by Tool. Do not modify the slice.
func (c *Catalog) Extension(id string) []*Entry { return c.lists[id].all() }

// Bounds of a page, which has at least one tool.
const (
	maxPage      = 1000
	maxPageBytes = 4 << 20
)

// Page returns the MCP descriptors after cursor: an extension's under their own names, or all under registered names if
// extension is "". visible selects entries; nil selects all. The first page has the cursor ""; the last page returns
// next as "". limit bounds the number of descriptors; default and maximum are 1,000. A page also ends before 4 MiB.
//
// A cursor is opaque and valid for one extension until its list changes. For any other cursor the error is of kind
// invalid_arguments, and the client restarts with cursor "".
func (c *Catalog) Page(extension, cursor string, limit int, visible func(*Entry) bool,
) (tools []json.RawMessage, next string, err error) {
	l := c.listOf(extension)
	if l == nil {
		l = c.newList(extension, nil, nil)
	}
	start, err := l.position(cursor)
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	tools, position := l.page(start, limit, visible)
	if position > 0 {
		next = l.cursor(position)
	}
	return tools, next, nil
}
