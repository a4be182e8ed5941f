package toolset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Codes of diagnostics about toolsets.
const (
	CodeUnmatched = "toolset_unmatched" // a pattern or a name matches nothing
	CodeAmbiguous = "toolset_ambiguous" // a tool has no unique name
	CodeHeld      = "toolset_held"      // a tool cannot be shown in the shape that the toolset states
)

// Misfit is a value of a toolset, or of another part of the configuration, that is not as it should be.
type Misfit struct {
	Field      string `json:"field"`           // such as include
	Value      string `json:"value,omitempty"` // such as a pattern
	Message    string `json:"message"`
	Suggestion string `json:"suggestion,omitempty"` // the value that may be meant
}

// Misfit returns p as a fault of field.
func (p Problem) Misfit(field string) Misfit {
	return Misfit{Field: field, Message: strings.TrimSuffix(p.Message+": "+p.Hint, ": ")}
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

// Preview returns the catalog tools that a toolset would show, and the faults of its patterns and of single tools.
func Preview(d Definition, catalog *tools.Catalog, all []Extension) (shown []*tools.Entry, list []Misfit) {
	const name = "preview"
	for _, p := range Check(map[string]Definition{name: d}, nil) {
		list = append(list, p.Misfit(strings.TrimPrefix(p.Key, root+name+".")))
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
	for _, f := range view.toolFaults(&n) {
		list = append(list, f.Misfit)
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
		diags = append(diags, warning(toolset, code, hint, format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(toolsets)) {
		view := v.byName[name]
		for _, m := range view.misfits(&n) {
			warn(name, CodeUnmatched, suggest(m.Suggestion), "%s", m.Message)
		}
		eachUnmatchedSkill(view.skills, all, func(pattern string) {
			warn(name, CodeUnmatched, "exthost skills list shows the names",
				"%q of skills matches nothing that there is", pattern)
		})
		diags = append(diags, view.unmatchedTools(name, &n)...)
	}
	slices.SortStableFunc(diags, func(a, b protocol.Diagnostic) int { return cmp.Compare(a.Message, b.Message) })
	return diags
}

func warning(toolset, code, hint, format string, args ...any) protocol.Diagnostic {
	return protocol.Diagnostic{
		Level:   protocol.LevelWarn,
		Code:    code,
		Hint:    hint,
		Message: root + toolset + ": " + fmt.Sprintf(format, args...),
	}
}

// suggest returns a hint with the name that may be meant, "" if none is similar.
func suggest(near string) string {
	if near != "" {
		return fmt.Sprintf("did you mean %q? exthost tools list shows the names", near)
	}
	return "exthost tools list shows the names"
}

// unmatchedTools returns a warning for each single tool that the toolset called name states something about and does
// not show, and for each that it leaves out.
func (v *View) unmatchedTools(name string, n *names) (diags []protocol.Diagnostic) {
	for _, f := range v.toolFaults(n) {
		if f.code == CodeHeld {
			f.hint = "correct " + root + name + "." + f.Field
		}
		diags = append(diags, warning(name, f.code, f.hint, "%s", f.Message))
	}
	return diags
}

// toolFault is a fault in the statements of a toolset about one tool.
type toolFault struct {
	Misfit
	code string // of the diagnostic
	hint string
}

// toolFaults returns what [View.unmatchedTools] warns about.
func (v *View) toolFaults(n *names) (list []toolFault) {
	add := func(code, field, near, hint, format string, args ...any) {
		m := Misfit{Field: field, Message: fmt.Sprintf(format, args...), Suggestion: near}
		list = append(list, toolFault{m, code, hint})
	}
	for field, tools := range map[string][]string{
		"describe": slices.Sorted(maps.Keys(v.describe)),
		"tools":    slices.Sorted(maps.Keys(v.shapes)),
	} {
		for _, tool := range tools {
			key := strict.Join(field, tool)
			switch {
			case !n.mayMatch(pattern{text: tool, literal: tool}):
				near := n.near(tool)
				add(CodeUnmatched, key, near, suggest(near), "%q of %s is no tool that there is", tool, field)
			case slices.Contains(n.known, tool) && v.Shaped(tool) == nil && !v.refuses(tool):
				add(CodeUnmatched, key, "", "take the name out of "+field+", or into include",
					"%q of %s is a tool that the toolset does not show", tool, field)
			}
		}
	}
	for _, e := range v.refused {
		key := strict.Join("tools", e.Name)
		if e.Reason != "" {
			add(CodeHeld, key, "", "", "%s is held back, in no list and not called: %s", e.Name, e.Reason)
			continue
		}
		add(CodeAmbiguous, key, "", "state another prefix or name",
			"%s is not shown: its name %q is too long, or that of another tool", e.Name, v.toolName(e.Name))
	}
	slices.SortStableFunc(list, func(a, b toolFault) int { return cmp.Compare(a.Field, b.Field) })
	return list
}

// refuses reports whether a tool is left out although the toolset selects it.
func (v *View) refuses(registered string) bool {
	return slices.ContainsFunc(v.refused, func(e tools.Refused) bool { return e.Name == registered })
}
