package manifest

import (
	_ "embed"
	"slices"

	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest/sandbox"
	"github.com/exthost/exthost/protocol"
)

// Tables are the tables of a plugin.toml that a package of another format may state beside it, for all its servers.
type Tables struct {
	Requires Requires `toml:"requires" json:"requires,omitzero"`
	Context  Context  `toml:"context" json:"context,omitzero"`
	Runtime  Runtime  `toml:"runtime" json:"runtime,omitzero"`
	// absent: not confined, unless the operator restricts it
	Sandbox *sandbox.Table `toml:"sandbox" json:"sandbox,omitempty"`
	Hooks   []HookSpec     `toml:"hooks" json:"hooks,omitempty"`
}

//go:embed tables.schema.json
var tablesSchema []byte

// TablesSchema returns the JSON Schema of [Tables], generated from the structs and their comments.
func TablesSchema() []byte { return slices.Clone(tablesSchema) }

// TablesSource is where a package states its tables: in an object of a JSON file, in a TOML file, or in both.
type TablesSource struct {
	JSON     []byte // valid JSON without comments
	JSONPath string
	Keys     []string // down to the object in JSON; nil: there is none
	TOML     []byte   // nil: there is no such file
	TOMLPath string
}

// ParseTables reads the tables of the package id. It reports every error at once, as [Parse] does; a key that both
// files state is one.
func ParseTables(id string, s TablesSource) (Tables, []protocol.Diagnostic) {
	r := &strict.Report{Code: CodeInvalid}
	root := s.root(r)
	if root == nil || r.Failed() {
		return Tables{}, r.Diagnostics
	}
	var t Tables
	d := strict.Decoder{Report: r, Exact: true}
	d.Decode("", root, &t)
	m := &Manifest{
		Plugin:   Plugin{ID: id},
		Requires: t.Requires,
		Context:  t.Context,
		Runtime:  t.Runtime,
		Sandbox:  t.Sandbox,
		Hooks:    t.Hooks,
	}
	v := validator{Report: r, places: d.Positions, m: m}
	v.requires()
	v.runtime()
	v.hooks()
	sortByPosition(r.Diagnostics)
	return Tables{m.Requires, m.Context, m.Runtime, m.Sandbox, m.Hooks},
		diagnostics.Capped(r.Diagnostics, maxDiagnostics)
}

// root returns the tree of both files; nil if neither states tables, or after an error.
func (s TablesSource) root(r *strict.Report) (root *strict.Node) {
	if len(s.Keys) > 0 {
		src := strict.NewSource(s.JSONPath, s.JSON)
		root, _ = strict.JSON(src, strict.Rules{Depth: 1000, AtKeys: true}) // the caller has read it already
		for _, key := range s.Keys {
			root = root.At(key)
		}
	}
	if s.TOML == nil {
		return root
	}
	file := read(s.TOMLPath, s.TOML, r, strict.TOML)
	if root == nil || file == nil {
		return file
	}
	root.Merge(file, r)
	return root
}
