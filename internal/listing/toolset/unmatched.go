package toolset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Codes of diagnostics about toolsets.
const (
	CodeUnmatched = "toolset_unmatched" // a pattern or a name matches nothing
	CodeAmbiguous = "toolset_ambiguous" // a tool has no unique name
)

// Unmatched returns a warning for each pattern and each described name that matches nothing known, and for each tool
// whose name would be too long or another tool's. It assumes that opaque and absent extensions may have any name that
// begins with their prefix.
func (v *Views) Unmatched(toolsets map[string]Definition, catalog *tools.Catalog, all []Extension,
) (diags []protocol.Diagnostic) {
	var known []string
	for _, e := range catalog.Entries() {
		known = append(known, e.Name)
	}
	for _, x := range all {
		known = append(known, catalog.WithheldOf(x.ID)...)
	}
	mayMatch := func(p pattern) bool {
		return slices.ContainsFunc(known, p.matches) || slices.ContainsFunc(all, func(x Extension) bool {
			return (x.Opaque || x.Absent) && p.mayMatch(tools.Prefix(x.ID), "")
		})
	}
	warn := func(toolset, code, hint, format string, args ...any) {
		diags = append(diags, protocol.Diagnostic{
			Level:   protocol.LevelWarn,
			Code:    code,
			Hint:    hint,
			Message: "toolsets." + toolset + ": " + fmt.Sprintf(format, args...),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(toolsets)) {
		view := v.byName[name]
		hint := func(pattern string) string {
			if near := text.Nearest(pattern, known); near != "" {
				return fmt.Sprintf("did you mean %q? exthost tools list shows the names", near)
			}
			return "exthost tools list shows the names"
		}
		for field, patterns := range map[string][]pattern{"include": view.include, "exclude": view.exclude} {
			for _, p := range patterns {
				// the search tools are in no catalog
				if !mayMatch(p) && (field == "include" || !slices.ContainsFunc(tools.SearchNames(), p.matches)) {
					warn(name, CodeUnmatched, hint(p.text), "%q of %s matches nothing that there is", p.text, field)
				}
			}
		}
		eachUnmatchedSkill(view.skills, all, func(pattern string) {
			warn(name, CodeUnmatched, "exthost skills list shows the names",
				"%q of skills matches nothing that there is", pattern)
		})
		for _, tool := range slices.Sorted(maps.Keys(view.describe)) {
			switch exact := (pattern{text: tool, literal: tool}); {
			case !mayMatch(exact):
				warn(name, CodeUnmatched, hint(tool), "%q of describe is no tool that there is", tool)
			case slices.Contains(known, tool) && !view.has(tool):
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
