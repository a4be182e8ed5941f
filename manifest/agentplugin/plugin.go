package agentplugin

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// The files and folders of a package, in its root.
const (
	FileName    = "plugin.json"
	ServersName = "mcp.json"
	// Namespace is where a package states what the format has no place for: a member of extensions in plugin.json,
	// and a folder with the file [TablesName].
	Namespace = "io.github.exthost"
	// TablesName is the file in the folder [Namespace].
	TablesName = "tables.toml"
)

// The $schema of the files of version 1.0.0.
const (
	PluginSchema  = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
	ServersSchema = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
)

// CodeForeign is the code of an Info: a plugin.json is not one of this version of Agent Plugins.
const CodeForeign = "plugin_json_foreign"

// Plugin is a package as it was read. Encoded as JSON it is the report of exthost validate.
type Plugin struct {
	Identity Identity `json:"plugin"`
	Servers  []Server `json:"servers"` // in the order of mcp.json; empty if the plugin is rejected
	Skills   []Skill  `json:"skills"`  // by name; [Read] does not look for them
	Notes    []Note   `json:"notes"`   // findings about neither a server nor a skill

	// Foreign means that the file is of another program, which uses the name too, or of another version.
	Foreign bool `json:"-"`
	// Manifest is what a host runs: the valid servers, and the tables of [Namespace]. It is nil if the plugin is
	// rejected.
	Manifest *manifest.Manifest `json:"-"`
	// Diagnostics are all findings with their places.
	Diagnostics []protocol.Diagnostic `json:"-"`
}

// Identity is what plugin.json says of the package.
type Identity struct {
	Name     string `json:"name"` // "" if it is invalid
	Version  string `json:"version"`
	Rejected bool   `json:"rejected"` // nothing of the package is used; Notes say why
}

// Server is one server of mcp.json.
type Server struct {
	Name    string `json:"name"`
	ID      string `json:"id"` // of the extension that it becomes
	Valid   bool   `json:"valid"`
	Reason  string `json:"reason"`  // why it is not valid
	Section string `json:"section"` // of the specification
}

// Skill is one folder of skills/ with a SKILL.md.
type Skill struct {
	Name    string `json:"name"`
	Valid   bool   `json:"valid"`
	Reason  string `json:"reason"`
	Section string `json:"section"`
}

// Note is a finding. Section is "" for a rule of this host.
type Note struct {
	Text    string `json:"text"`
	Section string `json:"section"`
}

// Options configures [Read].
type Options struct {
	// Refuse may reject an opened file, for example because of its owner. Default: every file is accepted.
	Refuse func(path string, info fs.FileInfo) *protocol.Diagnostic
}

// The bounds of a package.
const (
	maxBytes   = 256 << 10 // of a file; package manifest allows a tables.toml less
	maxServers = 256
	maxNotes   = 100
)

// Read reads the package in a folder, apart from its skills.
func Read(dir string, o Options) *Plugin {
	r := &reading{dir: dir, o: o, plugin: &Plugin{Servers: []Server{}, Skills: []Skill{}, Notes: []Note{}}}
	p := r.plugin
	if m := r.manifest(); m != nil && !p.Identity.Rejected {
		r.servers(m)
		p.Manifest = m
	}
	for i := range r.report.Diagnostics {
		r.report.Diagnostics[i].Extension = p.Identity.Name
	}
	p.Diagnostics = diagnostics.Capped(r.report.Diagnostics, maxNotes)
	return p
}

// reading is a package being read.
type reading struct {
	dir    string
	real   string // dir with all links resolved; "" until it is needed
	o      Options
	plugin *Plugin
	report strict.Report
}

// reject reports why nothing of the plugin is used.
func (r *reading) reject(pos strict.Pos, section, hint, format string, args ...any) {
	r.plugin.Identity.Rejected = true
	r.note(section, format, args...)
	r.report.Diagnose(protocol.LevelError, manifest.CodeInvalid, pos, hint, format+cite(section), args...)
}

// warn reports what is ignored.
func (r *reading) warn(pos strict.Pos, section, hint, format string, args ...any) {
	r.note(section, format, args...)
	r.report.Diagnose(protocol.LevelWarn, manifest.CodeUnsupported, pos, hint, format+cite(section), args...)
}

// disable reports why a whole component type is not used.
func (r *reading) disable(pos strict.Pos, section, format string, args ...any) {
	r.note(section, format, args...)
	r.report.Diagnose(protocol.LevelError, manifest.CodeSidecar, pos, "", format+cite(section), args...)
}

func (r *reading) note(section, format string, args ...any) {
	if len(r.plugin.Notes) < maxNotes {
		r.plugin.Notes = append(r.plugin.Notes, Note{fmt.Sprintf(format, args...), section})
	}
}

func cite(section string) string {
	if section == "" {
		return ""
	}
	return " (Agent Plugins " + section + ")"
}

// manifest reads plugin.json. It returns nil if there is no valid name.
func (r *reading) manifest() *manifest.Manifest {
	path := filepath.Join(r.dir, FileName)
	data, no := r.file(FileName)
	if no == nil && data == nil {
		no = &refusal{section: "4.1", text: "there is no " + FileName}
	}
	if no != nil {
		r.refuse(no)
		return nil
	}
	root, bad := parse(path, data)
	if bad != nil {
		r.plugin.Foreign = !meant(data)
		r.reject(bad.Pos, "5.2", "", "it is not a JSON object: %s", bad.Message)
		return nil
	}
	m := description{reading: r, root: root}.manifest()
	r.plugin.Identity.Name = m.Plugin.ID
	var keys []string
	if root.At("extensions").At(Namespace) != nil {
		keys = []string{"extensions", Namespace}
	}
	if t, ok := r.tables(path, data, keys); ok {
		m.Requires, m.Context, m.Runtime, m.Sandbox, m.Hooks = t.Requires, t.Context, t.Runtime, t.Sandbox, t.Hooks
		m.Servers = manifest.ServerTables{Secrets: t.Secrets, Tools: t.Tools}
	}
	return m
}

// tables reads what the package states in our namespace. keys lead to it in plugin.json, if it is there.
func (r *reading) tables(path string, data []byte, keys []string) (t manifest.Tables, ok bool) {
	if r.plugin.Identity.Rejected {
		return t, false
	}
	name := filepath.Join(Namespace, TablesName)
	stated, no := r.file(name)
	if no != nil {
		no.section = cmp.Or(no.section, "8.2")
		r.refuse(no)
		return t, false
	}
	t, diags := manifest.ParseTables(r.plugin.Identity.Name, manifest.TablesSource{
		JSON:     data,
		JSONPath: path,
		Keys:     keys,
		TOML:     stated,
		TOMLPath: filepath.Join(r.dir, name),
		Servers:  r.types,
	})
	for _, d := range diags {
		if d.Level == protocol.LevelError {
			r.plugin.Identity.Rejected = true
		}
		text := d.Message
		if d.Hint != "" {
			text += "; " + d.Hint
		}
		r.note("8", "%s: %s", Namespace, text)
		d.Message = Namespace + ": " + d.Message
		r.report.Diagnostics = append(r.report.Diagnostics, d)
	}
	for _, server := range slices.Sorted(maps.Keys(t.Secrets)) {
		for _, name := range slices.Sorted(maps.Keys(t.Secrets[server].Headers)) {
			if ownHeaders.MatchString(name) {
				r.reject(strict.Pos{File: path}, "8", "",
					"%s: secrets: the header %s of the server %q is the host's own", Namespace, short(name, 100),
					short(server, 100))
			}
		}
	}
	return t, !r.plugin.Identity.Rejected
}

// types returns the types of the servers of mcp.json, nil if that cannot be used. It reports nothing.
func (r *reading) types() map[string]string {
	quiet := &reading{dir: r.dir, o: r.o, plugin: &Plugin{}}
	m := &manifest.Manifest{Plugin: manifest.Plugin{ID: r.plugin.Identity.Name}}
	quiet.servers(m)
	if m.MCPServers == nil {
		return nil
	}
	types := make(map[string]string, len(quiet.plugin.Servers))
	for _, s := range quiet.plugin.Servers {
		types[s.Name] = m.MCPServers[s.Name].Type
	}
	return types
}

// refuse rejects the plugin for a file that cannot be used.
func (r *reading) refuse(f *refusal) {
	if f.diagnostic == nil {
		r.reject(strict.Pos{File: filepath.Join(r.dir, cmp.Or(f.name, FileName))}, f.section, "", "%s", f.text)
		return
	}
	r.plugin.Identity.Rejected = true
	r.note(f.section, "%s", f.diagnostic.Message)
	r.report.Diagnostics = append(r.report.Diagnostics, *f.diagnostic)
}

// short returns at most n characters of a text.
func short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// twins notes each id that several servers have: none of these servers runs.
func (r *reading) twins() {
	names := map[string][]string{}
	for _, s := range r.plugin.Servers {
		if s.Valid {
			names[s.ID] = append(names[s.ID], s.Name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if of := names[id]; len(of) > 1 {
			r.note("", "%d servers have the id %s (%q and %q): none of them runs until extensions.disabled names the "+
				"others, as %s.NAME", len(of), id, of[0], of[1], r.plugin.Identity.Name)
		}
	}
}
