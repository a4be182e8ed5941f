package manifest

import (
	_ "embed"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

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
	// by server: the stored secrets that it asks for; the values that mcp.json states are literal
	Secrets map[string]ServerSecrets `toml:"secrets" json:"secrets,omitempty"`
	// by server, then by tool: texts in place of those that the server states
	Tools map[string]map[string]ToolText `toml:"tools" json:"tools,omitempty"`
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

	// Servers returns the type of each server of the package, "" for an invalid one; nil if they are not known. It is
	// called if the tables are about a server.
	Servers func() map[string]string
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
	if len(t.Secrets)+len(t.Tools) > 0 {
		v.serverTables(&t, s.types())
	}
	sortByPosition(r.Diagnostics)
	t.Requires, t.Context, t.Runtime, t.Sandbox, t.Hooks = m.Requires, m.Context, m.Runtime, m.Sandbox, m.Hooks
	return t, diagnostics.Capped(r.Diagnostics, maxDiagnostics)
}

// serverTables checks the tables about servers, whose types are types.
func (v *validator) serverTables(t *Tables, types map[string]string) {
	known := slices.Sorted(maps.Keys(types))
	for _, table := range []struct {
		name    string
		servers []string
	}{{"secrets", slices.Sorted(maps.Keys(t.Secrets))}, {"tools", slices.Sorted(maps.Keys(t.Tools))}} {
		for _, server := range table.servers {
			if _, is := types[server]; !is && types != nil {
				v.errorf(strict.Join(table.name, server), strict.DidYouMean(server, known),
					"%s: the package has no server %q", table.name, server)
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(t.Secrets)) {
		v.serverSecrets(strict.Join("secrets", server), t.Secrets[server], types[server])
	}
	for _, server := range slices.Sorted(maps.Keys(t.Tools)) {
		for _, tool := range slices.Sorted(maps.Keys(t.Tools[server])) {
			path := strict.Join(strict.Join("tools", server), tool)
			if !isToolName(tool) {
				v.errorf(path, "", "%s: %q is no name of a tool", path, tool)
			}
			if _, err := EncodeJSON(t.Tools[server][tool].Annotations); err != nil {
				v.errorf(path+".annotations", "", "%s.annotations: %v", path, err)
			}
		}
	}
}

// serverSecrets checks the secrets of a server of that type; "" if it is not known.
func (v *validator) serverSecrets(path string, s ServerSecrets, kind string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		at := path + ".env." + name
		switch upper := strings.ToUpper(name); {
		case kind != "" && kind != KindStdio:
			v.errorf(at, "state headers", "%s: a remote server has no environment", path)
		case !envName.MatchString(name) || upper == "PLUGIN_ROOT" || upper == "PLUGIN_DATA":
			v.errorf(at, "", "%s: %q cannot be set", path, name)
		}
		v.reference(at, s.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		at := path + ".headers." + name
		switch {
		case kind == KindStdio:
			v.errorf(at, "state env", "%s: a process gets no headers", path)
		case !httpguts.ValidHeaderFieldName(name):
			v.errorf(at, "", "%s: %q is not the name of a header", path, name)
		}
		v.reference(at, s.Headers[name])
	}
}

// reference requires a reference to a stored secret in a value.
func (v *validator) reference(at, value string) {
	if !strings.Contains(value, "secret://") {
		v.errorf(at, "write secret://NAME; what is public belongs into mcp.json", "%s refers to no stored secret", at)
	}
}

// types returns the types of the servers, nil if they are not known.
func (s TablesSource) types() map[string]string {
	if s.Servers == nil {
		return nil
	}
	return s.Servers()
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
