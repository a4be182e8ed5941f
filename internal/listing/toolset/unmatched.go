package toolset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Codes of diagnostics about toolsets.
const (
	CodeUnmatched = "toolset_unmatched" // a pattern or a name matches nothing
	CodeAmbiguous = "toolset_ambiguous" // a tool has no unique name
)

// Misfit is a value of a toolset, or of another part of the configuration, that is not as it should be.
type Misfit struct {
	Field      string `json:"field"`           // such as include
	Value      string `json:"value,omitempty"` // such as a pattern
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"` // the value that may be meant
}

// names are the names that patterns may match.
type names struct {
	known []string    // of tools
	all   []Extension // opaque and absent ones may have any name that begins with their prefix
}

func namesOf(catalog *tools.Catalog, all []Extension) names {
	n := names{all: all}
	for _, e := range catalog.Entries() {
		n.known = append(n.known, e.Name)
	}
	for _, x := range all {
		n.known = append(n.known, catalog.WithheldOf(x.ID)...)
	}
	return n
}

func (n *names) mayMatch(p pattern) bool {
	return slices.ContainsFunc(n.known, p.matches) || slices.ContainsFunc(n.all, func(x Extension) bool {
		return (x.Opaque || x.Absent) && p.mayMatch(tools.Prefix(x.ID), "")
	})
}

// near returns the name or the pattern of a whole extension that may be meant, "" if none is similar.
func (n *names) near(meant string) string {
	candidates := n.known
	if strings.HasSuffix(meant, "*") {
		candidates = nil
		for _, x := range n.all {
			candidates = append(candidates, tools.Prefix(x.ID)+"*")
		}
	}
	return text.Nearest(meant, candidates)
}

// misfits returns the patterns of include and exclude that match nothing.
func (v *View) misfits(n *names) (list []Misfit) {
	for _, side := range []struct {
		field    string
		patterns []pattern
	}{{"include", v.include}, {"exclude", v.exclude}} {
		for _, p := range side.patterns {
			// the search tools are in no catalog
			if n.mayMatch(p) || side.field == "exclude" && slices.ContainsFunc(tools.SearchNames(), p.matches) {
				continue
			}
			list = append(list, Misfit{
				Field:      side.field,
				Value:      p.text,
				Message:    fmt.Sprintf("%q of %s matches nothing that there is", p.text, side.field),
				Suggestion: n.near(p.text),
			})
		}
	}
	return list
}

// Preview returns the catalog tools that a toolset would show, and what is wrong with its include and exclude.
func Preview(d Definition, catalog *tools.Catalog, all []Extension) (shown []*tools.Entry, list []Misfit) {
	const name = "preview"
	for _, p := range Check(map[string]Definition{name: d}, nil) {
		field, _, _ := strings.Cut(strings.TrimPrefix(p.Key, root+name+"."), ".")
		list = append(list, Misfit{Field: field, Message: strings.TrimSuffix(p.Message+": "+p.Hint, ": ")})
	}
	if len(list) > 0 {
		return nil, list
	}
	view := NewViews(map[string]Definition{name: d}, catalog, all, nil).byName[name]
	n := namesOf(catalog, all)
	list = view.misfits(&n)
	if len(view.reached) == 0 {
		list = append(list, Misfit{Field: "include", Message: "the toolset shows nothing of any extension"})
	}
	return view.tools.Entries(), list
}

// Unmatched returns a warning for each pattern and each described name that matches nothing known, and for each tool
// whose name would be too long or another tool's. It assumes that opaque and absent extensions may have any name that
// begins with their prefix.
func (v *Views) Unmatched(toolsets map[string]Definition, catalog *tools.Catalog, all []Extension,
) (diags []protocol.Diagnostic) {
	n := namesOf(catalog, all)
	warn := func(toolset, code, hint, format string, args ...any) {
		diags = append(diags, protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Code:    code,
			Hint:    hint,
			Message: "toolsets." + toolset + ": " + fmt.Sprintf(format, args...),
		})
	}
	hint := func(near string) string {
		if near != "" {
			return fmt.Sprintf("did you mean %q? exthost tools list shows the names", near)
		}
		return "exthost tools list shows the names"
	}
	for _, name := range slices.Sorted(maps.Keys(toolsets)) {
		view := v.byName[name]
		for _, m := range view.misfits(&n) {
			warn(name, CodeUnmatched, hint(m.Suggestion), "%s", m.Message)
		}
		eachUnmatchedSkill(view.skills, all, func(pattern string) {
			warn(name, CodeUnmatched, "exthost skills list shows the names",
				"%q of skills matches nothing that there is", pattern)
		})
		for _, tool := range slices.Sorted(maps.Keys(view.describe)) {
			switch exact := (pattern{text: tool, literal: tool}); {
			case !n.mayMatch(exact):
				warn(name, CodeUnmatched, hint(n.near(tool)), "%q of describe is no tool that there is", tool)
			case slices.Contains(n.known, tool) && !view.has(tool):
				warn(name, CodeUnmatched, "take the name out of describe, or into include",
					"%q of describe is a tool that the toolset does not show", tool)
			}
		}
		for _, e := range view.refused {
			warn(name, CodeAmbiguous, "state another prefix",
				"%s is not shown: with the prefix %q its name is too long, or that of another tool", e.Name,
				view.prefix)
		}
	}
	slices.SortStableFunc(diags, func(a, b protocol.Diagnostic) int { return cmp.Compare(a.Message, b.Message) })
	return diags
}

// has reports whether the toolset shows a catalog tool by its registered name.
func (v *View) has(registered string) bool {
	for _, name := range []string{v.Rename(registered), registered} {
		if e, ok := v.tools.Lookup(name); ok && e.Registered() == registered {
			return true
		}
		if e, ok := v.tools.Withheld("", name); ok && e.Registered() == registered {
			return true
		}
	}
	return false
}
