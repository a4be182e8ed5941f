package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/protocol"
)

// Source is what one extension offers.
type Source struct {
	Extension string // "" are the host's own tools, which keep their names
	// Tools are read from Raw, the descriptor as it was sent; the other fields
	// count only for a tool without one, which was declared in a file.
	Tools []protocol.Tool
	// Withheld names those of Tools that are to be in no list; they keep their
	// registered names from others.
	Withheld []string
}

// Catalog is an immutable, sorted set of tools. It is safe for concurrent use.
type Catalog struct {
	generation uint64
	entries    []*Entry            // by Name
	byName     map[string]*Entry   // by Name
	extensions map[string][]*Entry // by Tool
	withheld   map[string]*Entry   // by Name; in none of the above
	checkers   map[[sha256.Size]byte]*checker
}

// Entry is one tool. It is immutable.
type Entry struct {
	Name        string // the registered name, unique in the catalog
	Extension   string // the extension's id
	Tool        string // the name the extension knows it by
	Title       string // without invisible characters; "" when there is none
	Description string // labelled with the extension and without invisible characters

	// Descriptor is the MCP form under Name and Description, Own the one under
	// the extension's own name and without the label. Every other member has the
	// bytes, order and number text it was sent with, unknown ones included; but
	// inputSchema and outputSchema are spelled MCP's way, an input schema without
	// a type gets "object", optional members that are null are left out and raw
	// newlines between tokens go.
	Descriptor, Own json.RawMessage

	InputSchema json.RawMessage // as in Descriptor
	Annotations json.RawMessage // as sent; nil when there are none
	Raw         json.RawMessage // the descriptor as sent, for pinning

	checker *checker
	tokens  int
	remarks []protocol.Diagnostic // on the descriptor
}

// Tokens estimates what the tool's definition costs in a model's context: a
// quarter of the bytes of its [Anthropic] form, rounded up.
func (e *Entry) Tokens() int { return e.tokens }

// NewCatalog builds the catalog of one generation. Sources come in discovery
// order, which decides who keeps a name that two tools want; within a source the
// order does not matter. prev, which may be nil, only lends what has not
// changed since. An extension has one source; a second one panics. The diagnostics tell of every tool that was dropped (LevelError) and
// of every one that was renamed or goes unchecked (LevelWarn).
func NewCatalog(generation uint64, sources []Source, prev *Catalog) (*Catalog, []protocol.Diagnostic) {
	c := &Catalog{
		generation: generation,
		byName:     map[string]*Entry{},
		extensions: map[string][]*Entry{},
		withheld:   map[string]*Entry{},
		checkers:   map[[sha256.Size]byte]*checker{},
	}
	var ds []protocol.Diagnostic
	for _, s := range sources {
		if c.extensions[s.Extension] != nil {
			panic("tools: two sources for extension " + s.Extension)
		}
		for _, d := range c.add(s, prev) {
			d.Extension = s.Extension
			ds = append(ds, d)
		}
	}
	slices.SortFunc(c.entries, func(a, b *Entry) int { return cmp.Compare(a.Name, b.Name) })
	return c, ds
}

// offer is a descriptor on its way to becoming an Entry.
type offer struct {
	protocol.Tool
	members []member
	known   *Entry // what an earlier catalog made of the same bytes; only Name and Raw are set besides
}

// add enters the tools of one source. They are sorted first, so that an extension
// that lists them in another order each time gets the same names each time.
func (c *Catalog) add(s Source, prev *Catalog) (ds []protocol.Diagnostic) {
	known := prev.known(s.Extension)
	offers := make([]offer, 0, len(s.Tools))
	for _, t := range s.Tools {
		if len(t.Raw) == 0 {
			t.Raw = declared(t)
		}
		if e := known[string(t.Raw)]; e != nil {
			offers = append(offers, offer{Tool: protocol.Tool{Name: e.Tool, Raw: e.Raw}, known: e})
			continue
		}
		parsed, ms, err := parse(t.Raw)
		if err != nil {
			ds = append(ds, finding("tool_descriptor_invalid", "%s", err.(*protocol.Error).Message))
			continue
		}
		offers = append(offers, offer{Tool: parsed, members: ms})
	}
	slices.SortStableFunc(offers, func(a, b offer) int { return cmp.Compare(a.Name, b.Name) })
	for i, o := range offers {
		if i > 0 && offers[i-1].Name == o.Name {
			ds = append(ds, finding("tool_duplicate", "tool %q is offered twice; the first one is used", o.Name))
			continue
		}
		if len(c.extensions[s.Extension]) == MaxTools {
			ds = append(ds, finding("tool_limit", "tool %q: an extension has at most %d tools", o.Name, MaxTools))
			continue
		}
		ds = append(ds, c.enter(s.Extension, o, slices.Contains(s.Withheld, o.Name), prev)...)
	}
	return ds
}

// known are an extension's entries by the bytes they were made from.
func (c *Catalog) known(extension string) map[string]*Entry {
	known := make(map[string]*Entry)
	if c != nil {
		for _, e := range c.extensions[extension] {
			known[string(e.Raw)] = e
		}
	}
	return known
}

// enter names one tool and takes it in.
func (c *Catalog) enter(extension string, o offer, withheld bool, prev *Catalog) []protocol.Diagnostic {
	name, renamed, free := Register(extension, o.Name, func(n string) bool { return c.holder(n) != nil })
	e := o.known
	if e == nil || e.Name != name {
		var faults []protocol.Diagnostic
		if e, faults = c.make(name, extension, o, prev); faults != nil {
			return faults
		}
	}
	ds := slices.Clone(e.remarks)
	if !free {
		return append(ds, finding("tool_name_taken", "tool %q: its name %s is taken by tool %q of %s",
			o.Name, name, c.holder(name).Tool, c.holder(name).Extension))
	}
	if renamed {
		d := finding("tool_renamed", "tool %q is registered as %s; %s belongs to an earlier tool",
			o.Name, name, plainName(extension, o.Name))
		d.Level, d.Hint = protocol.LevelWarn, "rename the tool or the extension"
		ds = append(ds, d)
	}
	if withheld {
		c.withheld[name] = e
		return ds
	}
	if e.checker != nil {
		c.checkers[e.checker.key] = e.checker
	}
	c.entries = append(c.entries, e)
	c.byName[name] = e
	c.extensions[extension] = append(c.extensions[extension], e)
	return ds
}

// holder is the entry that has a registered name, nil when none has.
func (c *Catalog) holder(name string) *Entry {
	if e := c.byName[name]; e != nil {
		return e
	}
	return c.withheld[name]
}

// make checks and compiles one tool. It returns either an entry or what is wrong.
func (c *Catalog) make(name, extension string, o offer, prev *Catalog) (*Entry, []protocol.Diagnostic) {
	if o.known != nil { // its name has changed, since others' have
		o.Tool, o.members, _ = parse(o.Raw)
	}
	doc, ds := inspect(o.Tool)
	if slices.ContainsFunc(ds, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }) {
		return nil, ds
	}
	e := newEntry(name, extension, o)
	if e.checker = c.checkerOf(e.InputSchema, doc, prev); e.checker != nil && e.checker.err != nil {
		d := finding("tool_schema_unchecked", "tool %q: its arguments are not checked: %s", o.Name, cut(e.checker.err.Error(), 300))
		d.Level, d.Hint = protocol.LevelWarn, "correct the input schema"
		ds = append(ds, d)
	}
	e.remarks = ds
	return e, nil
}

func newEntry(name, extension string, o offer) *Entry {
	plain := visible(o.Description)
	e := &Entry{
		Name: name, Extension: extension, Tool: o.Name,
		Title: visible(o.Title), Description: label(extension, plain),
		InputSchema: o.InputSchema, Annotations: o.Annotations, Raw: o.Raw,
	}
	schema := member{"inputSchema", o.InputSchema}
	e.Descriptor = object(set(o.members, member{"name", quote(name)}, member{"description", quote(e.Description)}, schema))
	own := []member{schema}
	if plain != o.Description {
		own = append(own, member{"description", quote(plain)})
	}
	e.Own = object(set(o.members, own...))
	e.tokens = (len(anthropicTool(e, e.Description, e.InputSchema)) + 3) / 4
	return e
}

// checkerOf returns what checks arguments against schema, compiled at most once
// in this catalog and those before it; nil when every object will do.
func (c *Catalog) checkerOf(schema json.RawMessage, doc document, prev *Catalog) *checker {
	if string(schema) == noSchema {
		return nil
	}
	key := sha256.Sum256(schema)
	k := c.checkers[key]
	if k == nil && prev != nil {
		k = prev.checkers[key]
	}
	if k == nil {
		k = compile(doc)
		k.key = key
	}
	return k
}

// Generation returns the number the catalog was built with.
func (c *Catalog) Generation() uint64 { return c.generation }

// Lookup finds a tool by its registered name.
func (c *Catalog) Lookup(name string) (*Entry, bool) {
	e, ok := c.byName[name]
	return e, ok
}

// LookupIn finds a tool by the name its extension gave it.
func (c *Catalog) LookupIn(extension, tool string) (*Entry, bool) {
	es := c.extensions[extension]
	i, ok := slices.BinarySearchFunc(es, tool, func(e *Entry, tool string) int { return cmp.Compare(e.Tool, tool) })
	if !ok {
		return nil, false
	}
	return es[i], true
}

// Withheld finds a tool that is in no list: by its registered name, or with an
// extension by the name which that gave it.
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

// WithheldOf returns the registered names of an extension's tools that are in no
// list, sorted.
func (c *Catalog) WithheldOf(extension string) (names []string) {
	for name, e := range c.withheld {
		if e.Extension == extension {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Entries returns all tools, sorted by Name. The slice must not be changed.
func (c *Catalog) Entries() []*Entry { return c.entries }

// Extension returns the tools of one extension, sorted by Tool, their own names.
// The slice must not be changed.
func (c *Catalog) Extension(id string) []*Entry { return c.extensions[id] }
