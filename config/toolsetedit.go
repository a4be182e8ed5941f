package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/exthost/exthost/config/internal/edit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
)

// ToolsetEdit is a change of the patterns of one toolset, or of whether there is the toolset. What else the toolset
// states stays.
type ToolsetEdit struct {
	Name             string
	New              bool     // adds the toolset
	Include, Exclude []string // the patterns from now on; no Include: everything
	Remove           bool     // removes the existing toolset; Include and Exclude are ignored
	Digest           string   // of the file, by [Digest]: another content is left as it is; "": whatever it is
}

// EditToolset changes a toolset in the file that states it. A pattern that stays keeps its place and its comment. New
// toolsets go into the file of --config, else into the user's file. The error is of kind tool_not_found for an unknown
// toolset, of kind invalid_arguments for patterns that the configuration would refuse, for a new toolset that exists
// and for the removal of one that a client has, a *[ByHand], a [Refused], or of kind config_invalid; the file is
// unchanged then.
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
		next[t.Name] = now
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
		changes := []edit.List{}
		if slices.ContainsFunc(list.next, func(p string) bool { return !slices.Contains(list.was, p) }) {
			changes = append(changes, edit.List{Add: list.next}) // before the removals, so that the list is never empty
		}
		for _, p := range list.was {
			if !slices.Contains(list.next, p) {
				changes = append(changes, edit.List{Remove: p})
			}
		}
		for _, change := range changes {
			change.Section, change.Key = toolsetKey+"."+t.Name, list.key
			at := 0
			if data, at, err = edit.Apply(file, data, change); err != nil {
				return nil, 0, err
			}
			line = cmp.Or(line, at)
		}
	}
	return data, line, nil
}

// lines returns what a person should write to a file, in its notation.
func (t *ToolsetEdit) lines(file string) string {
	out, indent, is := toolsetKey+":\n  "+t.Name+":\n", "    ", ": "
	if strings.EqualFold(filepath.Ext(file), ".toml") {
		out, indent, is = "["+toolsetKey+"."+t.Name+"]\n", "", " = "
	}
	if len(t.Include) > 0 {
		out += indent + "include" + is + text.LiteralList(t.Include) + "\n"
	}
	return out + indent + "exclude" + is + text.LiteralList(t.Exclude) + "\n"
}
