package tools

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// Generation returns the first argument of [NewCatalog].
func (c *Catalog) Generation() uint64 { return c.generation }

// Lookup finds a tool by its registered name.
func (c *Catalog) Lookup(name string) (*Entry, bool) {
	e, ok := c.byName[name]
	return e, ok
}

// LookupIn finds a tool by its extension and its own name.
func (c *Catalog) LookupIn(extension, tool string) (*Entry, bool) {
	es := c.extensions[extension]
	i, ok := slices.BinarySearchFunc(es, tool, func(e *Entry, tool string) int { return cmp.Compare(e.Tool, tool) })
	if !ok {
		return nil, false
	}
	return es[i], true
}

// Withheld finds a withheld tool: by its registered name when extension is "", else by its
// own name.
func (c *Catalog) Withheld(extension, name string) (*Entry, bool) {
	if extension == "" {
		e, ok := c.withheld[name]
		return e, ok
	}
	for _, e := range c.withheld {
		if e.Extension == extension && e.Tool == name {
			return e, true
		}
	}
	return nil, false
}

// WithheldOf returns the registered names of an extension's withheld tools, sorted.
func (c *Catalog) WithheldOf(extension string) (names []string) {
	for name, e := range c.withheld {
		if e.Extension == extension {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Entries returns all tools, sorted by Name. The slice must not be modified.
func (c *Catalog) Entries() []*Entry { return c.entries }

// Extension returns the tools of one extension, sorted by Tool. The slice must not be
// modified.
func (c *Catalog) Extension(id string) []*Entry { return c.extensions[id] }

// Bounds of a page. A page holds at least one tool.
const (
	maxPage      = 1000
	maxPageBytes = 4 << 20
)

// Page returns the MCP descriptors that follow cursor: those of one extension under their
// own names, or, when extension is "", all under their registered names. visible selects
// the entries to list; nil selects all. The first page has cursor "", and next is "" on the
// last. limit bounds the descriptors of a page; its default and maximum is 1,000. A page
// also ends before 4 MiB.
//
// A cursor is opaque and valid for one generation and extension. The error for another one
// is of kind invalid_arguments; the client then starts with cursor "".
func (c *Catalog) Page(extension, cursor string, limit int, visible func(*Entry) bool) (tools []json.RawMessage, next string, err error) {
	entries, descriptor := c.entries, func(e *Entry) json.RawMessage { return e.Descriptor }
	if extension != "" {
		entries, descriptor = c.extensions[extension], func(e *Entry) json.RawMessage { return e.Own }
	}
	start, err := c.position(extension, cursor, len(entries))
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	tools, size := []json.RawMessage{}, 0
	for i, e := range entries[start:] {
		if visible != nil && !visible(e) {
			continue
		}
		d := descriptor(e)
		if len(tools) == limit || len(tools) > 0 && size+len(d) > maxPageBytes {
			return tools, c.cursor(extension, start+i), nil
		}
		tools, size = append(tools, d), size+len(d)
	}
	return tools, "", nil
}

func (c *Catalog) cursor(extension string, position int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d/%s", c.generation, position, extension))
}

func (c *Catalog) position(extension, cursor string, end int) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	generation, rest, _ := strings.Cut(string(text), "/")
	position, id, _ := strings.Cut(rest, "/")
	n, atoiErr := strconv.Atoi(position)
	if err != nil || atoiErr != nil || n <= 0 || n >= end || id != extension ||
		generation != strconv.FormatUint(c.generation, 10) {
		return 0, protocol.Errorf(protocol.InvalidArguments,
			"the cursor is not of this list, which may have changed meanwhile; list again without a cursor")
	}
	return n, nil
}
