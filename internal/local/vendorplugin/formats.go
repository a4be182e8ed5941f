package vendorplugin

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/local/clientconfig"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
)

// Format is the program whose format a plugin has.
type Format string

// The formats, in the order in which one of them is chosen of a folder with several.
const (
	Claude Format = "Claude Code"
	Codex  Format = "Codex"
	Gemini Format = "Gemini CLI"
	Cursor Format = "Cursor"
)

// format is what differs between the formats.
type format struct {
	name     Format
	manifest string
	client   clientconfig.Client
	servers  string // file with servers; "": only the manifest states them
	// both means that the usual files with servers and with hooks count even if the manifest states others
	both bool
	// root and data are the placeholders for the folder of the plugin and for that of its data, with which the plugin's
	// texts name them
	root, data []string
	// exported are the variables that the processes of the plugin get, with what they hold
	exported map[string]string
	parts    []part
}

// part is a part of a plugin that means nothing here.
type part struct {
	fields []string // of the manifest
	paths  []string // in the plugin
	what   string   // a plural
}

// The variables with which a manifest names the folder of the extension and a folder of its own for data.
const (
	rootVariable  = "${" + manifest.DirVariable + "}"
	stateVariable = "${EXTHOST_STATE_DIR}"
)

var formats = []*format{
	{
		name:     Claude,
		manifest: ".claude-plugin/plugin.json",
		client:   clientconfig.ClaudeCode,
		servers:  ".mcp.json",
		both:     true,
		root:     []string{"${CLAUDE_PLUGIN_ROOT}"},
		data:     []string{"${CLAUDE_PLUGIN_DATA}"},
		exported: map[string]string{"CLAUDE_PLUGIN_ROOT": rootVariable},
		parts: []part{
			{[]string{"commands"}, []string{"commands"}, "commands"},
			{[]string{"agents"}, []string{"agents"}, "agents"},
			{[]string{"lspServers"}, []string{".lsp.json"}, "language servers"},
			{[]string{"outputStyles"}, []string{"output-styles"}, "output styles"},
			{[]string{"monitors"}, []string{"monitors"}, "monitors"},
			{[]string{"themes"}, []string{"themes"}, "themes"},
			{[]string{"workflows"}, []string{"workflows"}, "workflows"},
			{[]string{"channels"}, nil, "channels"},
			{[]string{"dependencies"}, nil, "plugins that it needs"},
			{[]string{"settings"}, []string{"settings.json"}, "settings"},
		},
	},
	{
		name:     Codex,
		manifest: ".codex-plugin/plugin.json",
		client:   clientconfig.Codex,
		servers:  ".mcp.json",
		root:     []string{"${PLUGIN_ROOT}"},
		data:     []string{"${PLUGIN_DATA}"},
		parts: []part{
			{[]string{"apps"}, []string{".app.json"}, "apps of ChatGPT"},
			{[]string{"commands"}, []string{"commands"}, "commands"},
			{[]string{"agents"}, []string{"agents"}, "agents"},
		},
	},
	{
		name:     Gemini,
		manifest: "gemini-extension.json",
		client:   clientconfig.Gemini,
		root:     []string{"${extensionPath}"},
		parts: []part{
			{[]string{"contextFileName"}, []string{"GEMINI.md"}, "context files"},
			{nil, []string{"commands"}, "commands"},
			{nil, []string{"agents"}, "agents"},
			{nil, []string{"policies"}, "policies"},
			{[]string{"themes"}, nil, "themes"},
			{[]string{"excludeTools"}, nil, "tools of Gemini CLI that it takes away"},
			{[]string{"plan"}, nil, "settings of plans"},
		},
	},
	{
		name:     Cursor,
		manifest: ".cursor-plugin/plugin.json",
		client:   clientconfig.Cursor,
		servers:  "mcp.json",
		root:     []string{"${CURSOR_PLUGIN_ROOT}", "${CLAUDE_PLUGIN_ROOT}"},
		parts: []part{
			{[]string{"rules"}, []string{"rules", ".cursorrules"}, "rules"},
			{[]string{"commands"}, []string{"commands"}, "commands"},
			{[]string{"agents"}, []string{"agents"}, "agents"},
		},
	},
}

func formatOf(name Format) *format {
	return formats[slices.IndexFunc(formats, func(f *format) bool { return f.name == name })]
}

// leftOut names the parts of the plugin that mean nothing here.
func (r *reader) leftOut(f *format) {
	for _, p := range f.parts {
		var found []string
		for _, field := range p.fields {
			if _, stated := r.fields[field]; stated {
				found = append(found, field)
			}
		}
		for _, name := range p.paths {
			if r.exists(name) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		if found != nil {
			r.note(strings.Join(found, ", "), true, "%s have no counterpart here", p.what)
		}
	}
	if f.name == Claude && r.exists(skillFile) {
		r.note(skillFile, true, "a skill in the root of a plugin has no folder that bears its name")
	}
}

const skillFile = "SKILL.md"

// maxSkills bounds the folders of skills/ that are looked at.
const maxSkills = 1000

// skills finds the skills in skills/, and names those that the manifest has elsewhere.
func (r *reader) skills(f *format) {
	dir, err := r.root.Open("skills")
	if err == nil {
		entries, _ := dir.ReadDir(maxSkills + 1) // as the reader of skills does
		dir.Close()
		if len(entries) > maxSkills {
			r.note("skills", true, "it has over %d entries, and none of them is served", maxSkills)
			entries = nil
		}
		for _, e := range entries {
			info, err := r.root.Stat(path.Join("skills", e.Name(), skillFile))
			if err == nil && info.Mode().IsRegular() {
				r.plugin.Skills = append(r.plugin.Skills, e.Name())
			}
		}
		slices.Sort(r.plugin.Skills)
	}
	for _, stated := range r.paths("skills") {
		name, ok := local(stated)
		away := name != "." && name != "skills" && path.Dir(name) != "skills" && r.exists(name)
		if !ok || away && !r.arranged {
			r.note("skills", true, "%s: skills are served from skills/ alone", stated)
		}
	}
	r.placeholders(f)
}

// paths returns the paths that a field of the manifest states: one, or a list.
func (r *reader) paths(field string) (list []string) {
	if one, ok := rawjson.Text(r.fields[field]); ok {
		return []string{one}
	}
	_ = json.Unmarshal(r.fields[field], &list) // anything else names no path
	return list[:min(len(list), maxSkills)]
}

// placeholders names the skills whose text has a placeholder of the program, which is served as it is.
func (r *reader) placeholders(f *format) {
	var with []string
	words := slices.Concat(f.root, f.data)
	for _, name := range r.plugin.Skills {
		data, _, err := file.ReadRegularIn(r.root, filepath.Join("skills", name, skillFile), maxFile)
		within := func(word string) bool { return strings.Contains(string(data), word) }
		if err == nil && slices.ContainsFunc(words, within) {
			with = append(with, name)
		}
	}
	if with != nil {
		r.note("skills/"+strings.Join(with, ", skills/"), false, "their text has a placeholder such as %s, which %s "+
			"alone replaces", words[0], f.name)
	}
}
