package config

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/strict"
	"github.com/exthost/exthost/protocol"
)

// codeNote is the code of a diagnostic about a key of another program's file that has no
// effect here.
const codeNote = "config_note"

// noEffect are keys of other programs' files that are accepted in their places, by their
// path; * is any name. The value says what there is instead. docs/coming-from.md maps every
// key.
var noEffect = map[string]string{
	"plugin_dirs":                              "classes of Python plugins do not run here",
	"plugin_settings":                          "plugins[].timeout and plugins[].required say it for each policy",
	"schema_version":                           "",
	"extensions.transport_defaults":            "transport nats is not built in; extensions.defaults has the timeouts of the others",
	"extensions.doctor":                        "extensions.defaults has the timeouts",
	"extensions.entries.*.capabilities_grant":  "policies decide what an extension may do",
	"extensions.entries.*.allow_external_bind": "extensions do not listen here",
}

// adopt rewrites what other programs write in their own files into the form of this one.
func (l *loader) adopt(root *strict.Node) {
	bareDestinations(root)
	l.removeNoEffect("", "", root)
	if d := root.At("destinations"); d != nil {
		for i := range d.Fields {
			destination(d.Fields[i].Value)
		}
		for _, item := range d.Items {
			destination(item)
		}
	}
	if plugins := root.At("plugins"); plugins != nil {
		plugins.Items = slices.DeleteFunc(plugins.Items, l.inProcess)
	}
}

// removeNoEffect removes the keys of noEffect with a note for each. path is that of n, pattern
// the same with * for any name.
func (l *loader) removeNoEffect(path, pattern string, n *strict.Node) {
	n.Fields = slices.DeleteFunc(n.Fields, func(f strict.Field) bool {
		at, like := strict.Join(path, f.Key), strict.Join(pattern, f.Key)
		if pattern == "extensions.entries" {
			like = pattern + ".*"
		}
		if instead, known := noEffect[like]; known {
			l.report.Diagnose(protocol.LevelInfo, codeNote, f.Pos, instead, "%s has no effect here", at)
			return true
		}
		if like == "extensions" || like == "extensions.entries" || like == "extensions.entries.*" {
			l.removeNoEffect(at, like, f.Value)
		}
		return false
	})
}

// bareDestinations puts the content of a file called destinations, which may be names alone,
// below the key of that name.
func bareDestinations(root *strict.Node) {
	name := strings.TrimSuffix(filepath.Base(root.File), filepath.Ext(root.File))
	if name != "destinations" || len(root.Fields) == 0 || root.At("destinations") != nil || root.Kind != strict.Map {
		return
	}
	*root = strict.Node{Pos: root.Pos, Kind: strict.Map, Fields: []strict.Field{{Key: "destinations", Pos: root.Pos,
		Value: &strict.Node{Pos: root.Pos, Kind: strict.Map, Fields: root.Fields}}}}
}

// destination rewrites a URL alone, the type streamable_http and variables that are numbers.
func destination(d *strict.Node) {
	if d.Kind == strict.String {
		url := *d
		*d = strict.Node{Pos: d.Pos, Kind: strict.Map, Fields: []strict.Field{{Key: "url", Pos: d.Pos, Value: &url}}}
	}
	if t := d.At("type"); t != nil && (t.Text == "streamable_http" || t.Text == "streamable-http") {
		t.Text = DestinationHTTP
	}
	if env := d.At("env"); env != nil {
		for _, f := range env.Fields {
			if f.Value.Kind == strict.Int || f.Value.Kind == strict.Float || f.Value.Kind == strict.Bool {
				f.Value.Kind, f.Value.Value = strict.String, nil
			}
		}
	}
}

// className matches the kind of a plugin that is a Python class.
var className = regexp.MustCompile(`^([A-Za-z_]\w*\.)+[A-Za-z_]\w*$`)

// inProcess reports whether a plugin runs only inside the program that the file is of. One
// that is disabled is left out with a note, any other is an error: a host that leaves out a
// policy silently is not governed.
func (l *loader) inProcess(plugin *strict.Node) bool {
	kind, name := plugin.At("kind"), ""
	if n := plugin.At("name"); n != nil {
		name = n.Text
	}
	if kind == nil || kind.Text != "isolated_venv" && !className.MatchString(kind.Text) {
		return false
	}
	off := plugin.At("mode") != nil && plugin.At("mode").Text == "disabled" || plugin.At("disabled") != nil && plugin.At("disabled").Value == true
	if off {
		l.report.Diagnose(protocol.LevelInfo, codeNote, kind.Pos, "", "plugin %s is left out: it is disabled, and %s", name, onlyInside)
		return true
	}
	l.report.Add(kind.Pos, cmp.Or(counterpart(kind.Text), "run it as a plugin server: kind external with an mcp block")+"; or disable it", "plugin %s: %s", name, onlyInside)
	return true
}

const onlyInside = "a Python class runs only inside ContextForge"

// counterparts are the built-in policies that do what a Python plugin does, by a part of
// the name of its class.
var counterparts = []struct{ class, policy string }{
	{"pii", "redact"}, {"secret", "redact"}, {"ratelimit", "rate_limit"}, {"schemaguard", "schema"}, {"outputlength", "size_cap"},
	{"denylist", "access"}, {"allowlist", "access"}, {"opa", "cel"}, {"cedar", "cel"}, {"policy", "cel"},
}

// counterpart is the hint that names a built-in policy; "" when there is none.
func counterpart(kind string) string {
	class := strings.ToLower(strings.ReplaceAll(kind, "_", ""))
	for _, c := range counterparts {
		if strings.Contains(class, c.class) {
			return "the built-in policy " + c.policy + " does that; or run it as a plugin server: kind external with an mcp block"
		}
	}
	return ""
}
