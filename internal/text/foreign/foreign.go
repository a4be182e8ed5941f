// Package foreign translates configurations of other programs: it lists their settings that have no effect here with
// what replaces them, and rewrites their notations. docs/coming-from.md maps every key.
package foreign

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// noEffect maps the paths of keys to their replacements. * is the id of an extension.
var noEffect = map[string]string{
	"plugin_dirs":     "Python classes do not run here",
	"plugin_settings": "plugins[].timeout and plugins[].required say it for each policy",
	"schema_version":  "",
	"extensions.transport_defaults": "extensions.defaults has the timeouts; subject_prefix is stated in " +
		"each manifest",
	"extensions.doctor":                        "extensions.defaults has the timeouts",
	"extensions.entries.*.capabilities_grant":  "policies decide what an extension may do",
	"extensions.entries.*.allow_external_bind": "extensions do not listen here",
}

// Depth is the maximum length of a path in noEffect.
const Depth = 4

// NoEffect reports whether the key at path is known to have no effect, and what replaces it, "" if nothing does.
func NoEffect(path ...string) (instead string, known bool) {
	joined := strings.Join(path, ".")
	if len(path) == Depth {
		joined = strings.Join([]string{path[0], path[1], "*", path[3]}, ".")
	}
	instead, known = noEffect[joined]
	return instead, known
}

// className matches the kind of a plugin that is a Python class.
var className = regexp.MustCompile(`^([A-Za-z_]\w*\.)+[A-Za-z_]\w*$`)

// builtins are the built-in policies that replace Python plugins, by a part of the class name.
var builtins = []struct{ class, policy string }{
	{"pii", "redact"}, {"secret", "redact"}, {"ratelimit", "rate_limit"}, {"schemaguard", "schema"},
	{"outputlength", "size_cap"},
	{"denylist", "access"}, {"allowlist", "access"}, {"opa", "cel"}, {"cedar", "cel"}, {"policy", "cel"},
}

// PythonClass reports whether a plugin's kind is a Python class, which runs only inside ContextForge, and what
// replaces it.
func PythonClass(kind string) (instead string, is bool) {
	if kind != "isolated_venv" && !className.MatchString(kind) {
		return "", false
	}
	class := strings.ToLower(strings.ReplaceAll(kind, "_", ""))
	for _, b := range builtins {
		if strings.Contains(class, b.class) {
			instead = "the built-in policy " + b.policy + " does that; or "
			break
		}
	}
	return instead + "run it as a plugin server: kind external with an mcp block", true
}

// codeNote is the diagnostic code for another program's key that has no effect here.
const codeNote = "config_note"

// Rewrite translates the tree of a file, and reports keys without effect here and plugins that cannot run.
func Rewrite(root *strict.Node, report *strict.Report) {
	bareDestinations(root)
	removeNoEffect(root, report)
	if d := root.At("destinations"); d != nil {
		for i := range d.Fields {
			destination(d.Fields[i].Value)
		}
		for _, item := range d.Items {
			destination(item)
		}
	}
	if plugins := root.At("plugins"); plugins != nil {
		plugins.Items = slices.DeleteFunc(plugins.Items,
			func(plugin *strict.Node) bool { return inProcess(plugin, report) })
	}
}

// removeNoEffect removes keys without effect, with a note for each. path is the path of n.
func removeNoEffect(n *strict.Node, report *strict.Report, path ...string) {
	n.Fields = slices.DeleteFunc(n.Fields, func(f strict.Field) bool {
		at := append(slices.Clip(path), f.Key)
		instead, known := NoEffect(at...)
		if known {
			report.Diagnose(protocol.LevelInfo, codeNote, f.Pos, instead, "%s has no effect here",
				strings.Join(at, "."))
		} else if len(at) < Depth {
			removeNoEffect(f.Value, report, at...)
		}
		return known
	})
}

// bareDestinations handles a destinations file that has the names at its top level: it moves them below a key
// "destinations".
func bareDestinations(root *strict.Node) {
	name := strings.TrimSuffix(filepath.Base(root.File), filepath.Ext(root.File))
	if name != "destinations" || len(root.Fields) == 0 || root.At("destinations") != nil || root.Kind != strict.Map {
		return
	}
	*root = strict.Node{
		Pos:  root.Pos,
		Kind: strict.Map,
		Fields: []strict.Field{{Key: "destinations", Pos: root.Pos,
			Value: &strict.Node{Pos: root.Pos, Kind: strict.Map, Fields: root.Fields}}},
	}
}

// destination translates a lone URL, the type streamable_http in any spelling, and numeric variables.
func destination(d *strict.Node) {
	if d.Kind == strict.String {
		url := *d
		*d = strict.Node{Pos: d.Pos, Kind: strict.Map, Fields: []strict.Field{{Key: "url", Pos: d.Pos, Value: &url}}}
	}
	if t := d.At("type"); t != nil &&
		strings.EqualFold(strings.NewReplacer("-", "", "_", "").Replace(t.Text), "streamableHTTP") {
		t.Text = "http"
	}
	if env := d.At("env"); env != nil {
		for _, f := range env.Fields {
			if f.Value.Kind == strict.Int || f.Value.Kind == strict.Float || f.Value.Kind == strict.Bool {
				f.Value.Kind, f.Value.Value = strict.String, nil
			}
		}
	}
}

// inProcess reports whether a plugin runs only inside the other program. A disabled one is dropped with a note; an
// enabled one is an error, because silently dropping a policy would leave the host ungoverned.
func inProcess(plugin *strict.Node, report *strict.Report) bool {
	kind, name := plugin.At("kind"), ""
	if n := plugin.At("name"); n != nil {
		name = n.Text
	}
	if kind == nil {
		return false
	}
	instead, is := PythonClass(kind.Text)
	if !is {
		return false
	}
	off := plugin.At("mode") != nil && plugin.At("mode").Text == "disabled" ||
		plugin.At("disabled") != nil && plugin.At("disabled").Value == true
	if off {
		report.Diagnose(protocol.LevelInfo, codeNote, kind.Pos, "", "plugin %s is left out: it is disabled, and %s",
			name, onlyInside)
		return true
	}
	report.Add(kind.Pos, instead+"; or disable it", "plugin %s: %s", name, onlyInside)
	return true
}

const onlyInside = "a Python class runs only inside ContextForge"
