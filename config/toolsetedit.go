package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// ToolsetEdit is a change of the patterns and shapes of one toolset, or of whether there is the toolset. What else the
// toolset states stays.
type ToolsetEdit struct {
	Name             string
	New              bool     // adds the toolset
	Include, Exclude []string // the patterns from now on; no Include: everything
	// The shapes from now on of these tools, by registered name; one that states nothing shows its tool as it is. The
	// shapes of other tools stay.
	Tools  map[string]ShownTool
	Remove bool   // removes the existing toolset; patterns and shapes are ignored
	Digest string // of the file, by [Digest]: another content is left as it is; "": whatever it is
}

// EditToolset changes a toolset in the file that states it. A pattern or a value that stays keeps its place and its
// comment. New toolsets go into the file of --config, else into the user's file. The error is of kind tool_not_found
// for an unknown toolset, of kind invalid_arguments for what the configuration would refuse, for a new toolset that
// exists and for the removal of one that a client has, a *[ByHand], a [Refused], of kind config_invalid, or of the file
// system; the file is unchanged then.
func EditToolset(o LoadOptions, t ToolsetEdit) (Edited, error) {
	return makeEdit(t.Digest, func() (plannedEdit, error) { return plannedToolset(o, t) })
}

// toolsetKey begins the keys of toolsets.
const toolsetKey = "toolsets"

// plannedToolset plans the change of a toolset.
func plannedToolset(o LoadOptions, t ToolsetEdit) (p plannedEdit, err error) {
	cfg, err := Load(o)
	if err != nil {
		return p, err
	}
	now, known := cfg.Toolsets[t.Name]
	key := strict.Join(toolsetKey, t.Name)
	switch {
	case known && t.New:
		return p, misfit(protocol.InvalidArguments, "name", "",
			fmt.Sprintf("there is a toolset %s already: %s", t.Name, cfg.Origins.Of(key)))
	case !known && !t.New:
		return p, misfit(protocol.ToolNotFound, "name", text.Nearest(t.Name, slices.Collect(maps.Keys(cfg.Toolsets))),
			fmt.Sprintf("there is no toolset %.80q", t.Name))
	}
	if len(t.Include) == 0 {
		t.Include = nil
		if now.Include != nil {
			t.Include = []string{"*"} // the configuration refuses a list that becomes empty
		}
	}
	if err := t.check(cfg, now); err != nil {
		return p, err
	}
	if p.file = cfg.Origins.File(key); p.file == "" {
		p.file, err = UserFile(o, "exthost")
	}
	p.apply = func(data []byte) ([]byte, int, error) { return t.apply(p.file, data, now) }
	if !t.Remove {
		p.lines = t.lines
	}
	return p, err
}

// check returns the error for a change that makes the configuration invalid.
func (t *ToolsetEdit) check(cfg *Config, now Toolset) error {
	next := maps.Clone(cfg.Toolsets)
	if next == nil {
		next = make(map[string]Toolset)
	}
	if t.Remove {
		delete(next, t.Name)
	} else {
		now.Include, now.Exclude = t.Include, t.Exclude
		next[t.Name] = now.WithTools(t.Tools)
	}
	var wrong []Misfit
	for _, p := range toolset.Check(next, cfg.Server.toolsets()) {
		field, own := strings.CutPrefix(p.Key, toolsetKey+"."+t.Name+".")
		m := p.Misfit(field)
		switch {
		case t.Remove:
			m = Misfit{Field: "name", Message: p.Key + " has the toolset: give it another one first"}
		case !own:
			m.Field = "name"
		}
		wrong = append(wrong, m)
	}
	if wrong == nil {
		return nil
	}
	return NewMisfits(protocol.InvalidArguments, wrong...)
}

// apply makes the change in data, the content of file. now is the toolset before it.
func (t *ToolsetEdit) apply(file string, data []byte, now Toolset) (_ []byte, line int, err error) {
	table := edit.Table{Path: []string{toolsetKey, t.Name}, Remove: t.Remove}
	if t.New || t.Remove {
		if data, line, err = edit.ApplyTable(file, data, table); err != nil || t.Remove {
			return data, line, err
		}
	}
	for _, list := range []struct {
		key       string
		was, next []string
	}{{"include", now.Include, t.Include}, {"exclude", now.Exclude, t.Exclude}} {
		at := 0
		if data, at, err = writeList(file, data, toolsetKey+"."+t.Name, list.key, list.was, list.next); err != nil {
			return nil, 0, err
		}
		line = cmp.Or(line, at)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.Tools))) { // each one is written above those before
		at, path := 0, []string{toolsetKey, t.Name, "tools", name}
		was, next := shapeTable(now.Tools[name]), shapeTable(t.Tools[name])
		if data, at, err = writeTable(file, data, path, was, next); err != nil {
			return nil, 0, err
		}
		line = cmp.Or(at, line)
	}
	return data, line, nil
}

// writeList changes a list of texts in data, the content of file.
func writeList(file string, data []byte, section, key string, was, next []string) (_ []byte, line int, err error) {
	changes := []edit.List{}
	if slices.ContainsFunc(next, func(p string) bool { return !slices.Contains(was, p) }) {
		changes = append(changes, edit.List{Add: next}) // before the removals, so that the list is never empty
	}
	for _, p := range was {
		if !slices.Contains(next, p) {
			changes = append(changes, edit.List{Remove: p})
		}
	}
	for _, change := range changes {
		change.Section, change.Key = section, key
		at := 0
		if data, at, err = edit.Apply(file, data, change); err != nil {
			return nil, 0, err
		}
		line = cmp.Or(line, at)
	}
	return data, line, nil
}

// shapeTable returns the keys that a file states for a tool, nil for none.
func shapeTable(t ShownTool) (table map[string]any) {
	raw, err := json.Marshal(t)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		err = d.Decode(&table)
	}
	if err != nil || len(table) == 0 { // values were checked
		return nil
	}
	return plainNumbers(table).(map[string]any)
}

// plainNumbers replaces the numbers in a decoded value of JSON by such that are equal if their values are.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = plainNumbers(member)
		}
	case []any:
		for i, item := range v {
			v[i] = plainNumbers(item)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		switch {
		case err != nil || !strings.ContainsAny(v.String(), ".eE"):
			return v // an integer that is larger than others
		case f == math.Trunc(f) && math.Abs(f) < 1<<53:
			return int64(f)
		}
		return f
	}
	return v
}

// valueDepth is the length of the path of an argument of a tool: what is below are values, whatever they are.
const valueDepth = 6 // toolsets, NAME, tools, NAME, args, NAME

// writeTable changes the table at path, which is was, into next, in data, the content of file. nil is no table.
func writeTable(file string, data []byte, path []string, was, next map[string]any) (_ []byte, line int, err error) {
	if next == nil && was != nil {
		return edit.ApplyTable(file, data, edit.Table{Path: path, Remove: true})
	}
	var set []edit.Setting
	keys := maps.Clone(was)
	if keys == nil {
		keys = make(map[string]any)
	}
	maps.Copy(keys, next)
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(keys))) {
		before, after := was[key], next[key]
		tableBefore, isBefore := before.(map[string]any)
		tableAfter, isAfter := after.(map[string]any)
		textsBefore, isList := texts(before)
		textsAfter, isListAfter := texts(after)
		at := 0
		switch {
		case reflect.DeepEqual(before, after):
		case len(path) < valueDepth && (isBefore || isAfter):
			data, at, err = writeTable(file, data, append(slices.Clip(path), key), tableBefore, tableAfter)
		case len(path) < valueDepth && isList && isListAfter:
			data, at, err = writeList(file, data, strings.Join(path, "."), key, textsBefore, textsAfter)
		default:
			set = append(set, edit.Setting{Key: key, Value: literal(after)})
		}
		if err != nil {
			return nil, 0, err
		}
		line = cmp.Or(at, line)
	}
	if len(set) == 0 {
		return data, line, nil
	}
	slices.Reverse(set)
	data, at, err := edit.ApplyTable(file, data, edit.Table{Path: path, Set: set})
	return data, cmp.Or(at, line), err
}

// texts returns a list of texts of a decoded value.
func texts(v any) (list []string, ok bool) {
	items, ok := v.([]any)
	for _, item := range items {
		text, is := item.(string)
		list, ok = append(list, text), ok && is
	}
	return list, ok
}

// literal escapes the texts in a value for a file, in which ${NAME} is the value of a variable.
func literal(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "${", "$${")
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = literal(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = literal(member)
		}
		return out
	}
	return v
}

// lines returns what a person should write to a file, in its notation.
func (t *ToolsetEdit) lines(file string) string {
	out, indent, is := toolsetKey+":\n  "+t.Name+":\n", "    ", ": "
	isTOML := strings.EqualFold(filepath.Ext(file), ".toml")
	if isTOML {
		out, indent, is = "["+toolsetKey+"."+t.Name+"]\n", "", " = "
	}
	if len(t.Include) > 0 {
		out += indent + "include" + is + text.LiteralList(t.Include) + "\n"
	}
	out += indent + "exclude" + is + text.LiteralList(t.Exclude) + "\n"
	below := "tools."
	if !isTOML && len(t.Tools) > 0 {
		out, below = out+indent+"tools:\n", "  "
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tools)) {
		if table := shapeTable(t.Tools[name]); table == nil {
			out += indent + "# no " + name + " in tools\n"
		} else {
			out += indent + below + name + is + edit.Literal(file, literal(table)) + "\n"
		}
	}
	return out
}
