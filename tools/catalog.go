package tools

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
)

// Source holds the tools of one extension.
type Source struct {
	Extension string // "" for the host's own tools, which keep their names
	// Tools are the extension's tools. Only Raw, the descriptor as sent, is read of a tool that has it. A tool that a
	// manifest declares has no Raw; its other fields are read.
	Tools []protocol.Tool
	// Withheld names tools to leave out of every list. Their registered names stay reserved.
	Withheld []string
	// Risk returns the risk of a tool by its own name and its annotations. Default: [RiskOf].
	Risk func(tool string, annotations json.RawMessage) protocol.Risk
}

// riskOf returns the risk of a tool.
func (s *Source) riskOf(tool string, annotations json.RawMessage) protocol.Risk {
	if s.Risk == nil {
		return RiskOf(annotations)
	}
	return s.Risk(tool, annotations).Known()
}

// Catalog is an immutable, sorted set of tools. The zero value is empty. It is safe for concurrent use.
type Catalog struct {
	generation uint64
	all        *list                                // sorted by Name
	byName     map[string]*Entry                    // by Name
	lists      map[string]*list                     // of each extension with tools, sorted by Tool
	withheld   map[string]*Entry                    // by Name; in none of the lists
	withheldOf map[string][]string                  // registered names of withheld tools by extension
	holders    map[string]string                    // by name: the extension that holds the name, see hold
	schemas    map[[sha256.Size]byte]*schema.Schema // by the hash of the input schema
}

// Entry is an immutable tool.
type Entry struct {
	Name        string // the registered name, or its replacement in a selection; unique in the catalog
	Extension   string // the extension's id
	Tool        string // the extension's own name of the tool
	Title       string // visible characters only; "" when there is none
	Description string // visible characters only, with a label that names the extension

	// Descriptor is the MCP descriptor with Name and Description; Own has the extension's own name and no label.
	// Other members, unknown ones included, keep their bytes and order, except: input_schema and output_schema
	// become inputSchema and outputSchema, an input schema without a type gets "object", annotations that do not state
	// Risk do so, optional null members are removed, and so are line breaks between tokens.
	Descriptor, Own json.RawMessage

	Risk        protocol.Risk   // see [Source.Risk]
	InputSchema json.RawMessage // as in Descriptor
	Annotations json.RawMessage // as sent; nil if there are none
	Raw         json.RawMessage // the descriptor as sent, for pinning

	selected  *Entry // the catalog's entry that a selection shows as this one; nil outside selections
	app       appUse
	mismatch  Mismatch
	reshaped  *reshaped      // nil: arguments and results are shown as they are
	schema    *schema.Schema // nil: every object is valid
	schemaKey [sha256.Size]byte
	tokens    int
	warnings  []protocol.Diagnostic // about the descriptor
}

// Mismatch returns the check of results against the tool's output schema, nil if it states none.
func (e *Entry) Mismatch() Mismatch { return e.mismatch }

// Tokens estimates the size of the tool's definition in a model's context: the bytes of its [Anthropic] form
// divided by four, rounded up.
func (e *Entry) Tokens() int { return e.tokens }

// NewCatalog builds a catalog. If tools of two extensions want the same name, the extension that had it in prev keeps
// it, as long as that extension is among the sources, even without tools. If neither had the name, neither gets it.
// prev may be nil; its unchanged entries and compiled schemas are reused. The order within a source does not matter.
// NewCatalog panics if two sources have the same extension. The diagnostics report every tool that is dropped
// (LevelError), renamed or not validated (LevelWarn).
func NewCatalog(generation uint64, sources []Source, prev *Catalog) (*Catalog, []protocol.Diagnostic) {
	c := &Catalog{
		generation: generation,
		byName:     map[string]*Entry{},
		lists:      map[string]*list{},
		withheld:   map[string]*Entry{},
		withheldOf: map[string][]string{},
		schemas:    map[[sha256.Size]byte]*schema.Schema{},
	}
	var ds []protocol.Diagnostic
	list, ids := make([]described, len(sources)), make(map[string]bool, len(sources))
	for i, s := range sources {
		if ids[s.Extension] {
			panic("tools: two sources for extension " + s.Extension)
		}
		ids[s.Extension], list[i] = true, describe(s, prev)
	}
	c.hold(list, prev)
	for _, o := range list {
		for _, d := range c.add(o, prev) {
			d.Extension = o.Extension
			ds = append(ds, d)
		}
	}
	all := slices.SortedFunc(maps.Values(c.byName), func(a, b *Entry) int { return cmp.Compare(a.Name, b.Name) })
	c.all = c.newList("", all, prev)
	return c, ds
}

// candidate is a descriptor that may become an Entry.
type candidate struct {
	protocol.Tool
	plain   string // see plainName
	members []member
	risk    protocol.Risk
	reused  *Entry // the entry of prev with the same bytes and risk; if set, only Name and Raw of Tool are set
}

// described is a source with its descriptors read.
type described struct {
	Source
	candidates []candidate
	faults     []protocol.Diagnostic
}

// describe reads the descriptors of a source and sorts them, so that their order does not affect names. Tools with the
// same plain name are ordered by precedence, so that a registered name passes to another tool only when its tool is no
// longer offered.
func describe(s Source, prev *Catalog) described {
	known := prev.entriesByRaw(s.Extension)
	o := described{Source: s, candidates: make([]candidate, 0, len(s.Tools))}
	for _, t := range s.Tools {
		if len(t.Raw) == 0 {
			t.Raw = declaredDescriptor(t)
		}
		if e := known[string(t.Raw)]; e != nil && e.Risk == s.riskOf(e.Tool, e.Annotations) {
			o.candidates = append(o.candidates, candidate{
				Tool:   protocol.Tool{Name: e.Tool, Raw: e.Raw},
				plain:  plainName(s.Extension, e.Tool),
				reused: e,
			})
			continue
		}
		parsed, ms, err := parse(t.Raw)
		if err != nil {
			o.faults = append(o.faults, diagnostic("tool_descriptor_invalid", "%s", err.(*protocol.Error).Message))
			continue
		}
		o.candidates = append(o.candidates, candidate{
			Tool:    parsed,
			plain:   plainName(s.Extension, parsed.Name),
			members: ms,
			risk:    s.riskOf(parsed.Name, parsed.Annotations),
		})
	}
	slices.SortStableFunc(o.candidates, func(a, b candidate) int {
		if a.plain != b.plain {
			return cmp.Compare(a.plain, b.plain)
		}
		return cmp.Or(cmp.Compare(prev.precedence(s.Extension, a), prev.precedence(s.Extension, b)),
			cmp.Compare(a.Name, b.Name))
	})
	o.candidates = slices.CompactFunc(o.candidates, func(first, next candidate) bool {
		if first.Name != next.Name {
			return false
		}
		o.faults = append(o.faults,
			diagnostic("tool_duplicate", "tool %q is offered twice; the first one is used", next.Name))
		return true
	})
	return o
}

// precedence orders the tools of an extension with the same plain name, the lowest first: the tool that has the name in
// c, then the tools whose own name ends the plain name unchanged, then the others.
func (c *Catalog) precedence(extension string, o candidate) int {
	if c != nil {
		if e := c.registered(o.plain); e != nil && e.Extension == extension && e.Tool == o.Name {
			return 0
		}
	}
	if strings.HasSuffix(o.plain, o.Name) {
		return 1
	}
	return 2
}

// add adds the tools of one source.
func (c *Catalog) add(s described, prev *Catalog) []protocol.Diagnostic {
	ds := s.faults
	var entries []*Entry
	for i, o := range s.candidates {
		if len(entries) == MaxTools {
			ds = append(ds, diagnostic("tool_limit",
				"tool %q and the %d after it are dropped: an extension has at most %d tools",
				o.Name, len(s.candidates)-i-1, MaxTools))
			break
		}
		e, found := c.register(s.Extension, o, slices.Contains(s.Withheld, o.Name), prev)
		if ds = append(ds, found...); e != nil {
			entries = append(entries, e)
		}
	}
	if len(entries) > 0 {
		c.lists[s.Extension] = c.newList(s.Extension, entries, prev)
	}
	return ds
}

// entriesByRaw returns an extension's entries by the bytes of their descriptors.
func (c *Catalog) entriesByRaw(extension string) map[string]*Entry {
	known := make(map[string]*Entry)
	if c != nil {
		for _, e := range c.Extension(extension) {
			known[string(e.Raw)] = e
		}
	}
	return known
}

// register chooses a tool's name and adds the tool. It returns the entry if it is listed.
func (c *Catalog) register(extension string, o candidate, withheld bool, prev *Catalog,
) (listed *Entry, ds []protocol.Diagnostic) {
	name, renamed, free := Register(extension, o.Name, func(n string) bool { return c.registered(n) != nil })
	for _, n := range []string{o.plain, name} {
		if d := c.contested(extension, o.Name, n); d != nil {
			return nil, []protocol.Diagnostic{*d}
		}
	}
	e := o.reused
	if e == nil || e.Name != name {
		var faults []protocol.Diagnostic
		if e, faults = c.build(name, extension, o, prev); faults != nil {
			return nil, faults
		}
	}
	ds = slices.Clone(e.warnings)
	if !free {
		return nil, append(ds, diagnostic("tool_name_taken", "tool %q: its name %s is taken by tool %q of %s",
			o.Name, name, c.registered(name).Tool, c.registered(name).Extension))
	}
	if renamed {
		d := diagnostic("tool_renamed", "tool %q is registered as %s; %s belongs to an earlier tool",
			o.Name, name, plainName(extension, o.Name))
		d.Level, d.Hint = protocol.LevelWarn, "rename the tool or the extension"
		ds = append(ds, d)
	}
	if withheld {
		c.withheld[name], c.withheldOf[extension] = e, append(c.withheldOf[extension], name)
		return nil, ds
	}
	if e.schema != nil {
		c.schemas[e.schemaKey] = e.schema
	}
	c.byName[name] = e
	return e, ds
}

// registered returns the entry with a registered name, withheld or not, or nil.
func (c *Catalog) registered(name string) *Entry {
	if e := c.byName[name]; e != nil {
		return e
	}
	return c.withheld[name]
}

// build checks and compiles a tool. It returns an entry, or the errors.
func (c *Catalog) build(name, extension string, o candidate, prev *Catalog) (*Entry, []protocol.Diagnostic) {
	if o.reused != nil { // the registered name has changed
		o.Tool, o.members, _ = parse(o.Raw)
		o.risk = o.reused.Risk
	}
	doc, ds := inspect(o.Tool)
	if slices.ContainsFunc(ds, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }) {
		return nil, ds
	}
	e := newEntry(name, extension, o)
	if err := c.compile(e, doc, prev); err != nil {
		d := diagnostic("tool_schema_unchecked", "tool %q: its arguments are not checked: %s", o.Name,
			display.Cut(err.Error(), 300))
		d.Level, d.Hint = protocol.LevelWarn, "correct the input schema"
		ds = append(ds, d)
	}
	e.warnings = ds
	return e, nil
}

func newEntry(name, extension string, o candidate) *Entry {
	plain := display.Visible(o.Description)
	e := &Entry{
		Name:        name,
		Extension:   extension,
		Tool:        o.Name,
		Title:       display.Visible(o.Title),
		Description: labelled(extension, plain),
		Risk:        o.risk,
		InputSchema: o.InputSchema,
		Annotations: o.Annotations,
		Raw:         o.Raw,
	}
	own := []member{{"inputSchema", o.InputSchema}}
	if RiskOf(o.Annotations) != o.risk {
		own = append(own, member{"annotations", annotate(o.Annotations, o.risk)})
	}
	e.Descriptor = object(set(o.members, append([]member{{"name", rawjson.Quote(name)},
		{"description", rawjson.Quote(e.Description)}}, own...)...))
	if plain != o.Description {
		own = append(own, member{"description", rawjson.Quote(plain)})
	}
	if e.Own = object(set(o.members, own...)); bytes.Equal(e.Own, e.Raw) {
		e.Own = e.Raw // usually the same, so share the bytes
	}
	e.app, e.mismatch = readAppUse(o.Raw), mismatchOf(o.OutputSchema)
	e.tokens = (len(anthropicTool(e, e.Description, e.InputSchema)) + 3) / 4
	return e
}

// compile sets the schema of e, reusing one compiled by c or prev. The error is [schema.Schema.Err].
func (c *Catalog) compile(e *Entry, doc schema.Document, prev *Catalog) error {
	if string(e.InputSchema) == noSchema {
		return nil
	}
	e.schemaKey = sha256.Sum256(e.InputSchema)
	e.schema = c.schemas[e.schemaKey]
	if e.schema == nil && prev != nil {
		e.schema = prev.schemas[e.schemaKey]
	}
	if e.schema == nil {
		e.schema = schema.Compile(doc)
	}
	return e.schema.Err()
}
