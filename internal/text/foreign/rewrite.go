package foreign

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

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

// bareDestinations moves the content of a destinations file, which may state names at its top, below the key
// destinations.
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

// destination translates a lone URL, the type streamable_http and numeric variables.
func destination(d *strict.Node) {
	if d.Kind == strict.String {
		url := *d
		*d = strict.Node{Pos: d.Pos, Kind: strict.Map, Fields: []strict.Field{{Key: "url", Pos: d.Pos, Value: &url}}}
	}
	if t := d.At("type"); t != nil && (t.Text == "streamable_http" || t.Text == "streamable-http") {
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
