package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/secret/clienttoken"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/strict"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// CodeUnmatched is the code of the diagnostic about a pattern that matches nothing.
const CodeUnmatched = "pattern_unmatched"

// Known is everything that patterns of policies may match.
type Known struct {
	Tools      []string // registered names
	Extensions []string // ids of extensions and destinations, including those that do not run
	Silent     []string // the Extensions whose tools are unknown
	Clients    []string // names of the named clients
	AnyCaller  bool     // an authorization server or other cluster nodes name callers, too

	// Arguments returns the arguments that the schema of a tool names; nil if there is no such tool.
	Arguments func(tool string) []string
	// Place returns where a file states a field of a policy; "" if no file does. May be nil.
	Place func(policy, field string) (file string, line, column int)
}

// callers returns the names of callers that can be listed. It omits clients on stdio, whose names begin with
// [clienttoken.Stdio].
func (k *Known) callers() []string {
	return append([]string{"", clienttoken.Static, clienttoken.Operator}, k.Clients...)
}

// covers reports whether p may match something.
func (k *Known) covers(p builtin.Pattern, known []string) bool {
	switch p.Of {
	case "callers":
		if k.AnyCaller || fits(p.Glob, clienttoken.Stdio) {
			return true
		}
	case "tools":
		if slices.ContainsFunc(k.Silent, func(id string) bool { return fits(p.Glob, tools.Prefix(id)) }) {
			return true
		}
	}
	return slices.ContainsFunc(known, (glob.List{p.Glob}).Match)
}

// argumentsOf returns the arguments of the tools that patterns select.
func (k *Known) argumentsOf(patterns []builtin.Pattern) (names []string) {
	var selected glob.List
	for _, p := range patterns {
		if p.Of == "tools" {
			selected = append(selected, p.Glob)
		}
	}
	for _, tool := range k.Tools {
		if k.Arguments != nil && len(selected) > 0 && selected.Match(tool) {
			names = append(names, k.Arguments(tool)...)
		}
	}
	return names
}

// Unmatched returns a warning for each pattern that matches no known tool, extension or caller, and for an argument
// that none of the selected tools has but one like it: a rule with a misspelled name never applies.
func (set *Set) Unmatched(k Known) (diags []protocol.Diagnostic) {
	for _, m := range set.Members {
		patterns := builtin.Patterns(m.Spec)
		if s, ok := m.Policy.(builtin.Selector); ok {
			patterns = append(patterns, s.Patterns()...)
		}
		for _, p := range patterns {
			known, list := k.Tools, toolNames
			switch p.Of {
			case "extensions":
				known, list = k.Extensions, "exthost status shows the ids"
			case "callers":
				known, list = k.callers(),
					`callers are "" (anonymous), "token", "operator", "stdio:…" and those that `+
						"exthost client list shows"
			}
			if p.Of == "arguments" {
				known, list = k.argumentsOf(patterns), "exthost tools schema shows the arguments of a tool"
				if text.Nearest(p.Glob, known) == "" { // else it may be one that no schema names
					continue
				}
			}
			if k.covers(p, known) {
				continue
			}
			d := unmatched(p, known, list)
			d.Extension = status.PolicyPrefix + m.Spec.Name
			if k.Place != nil {
				d.Path, d.Line, d.Column = k.Place(m.Spec.Name, p.Field)
			}
			diags = append(diags, d)
		}
	}
	return diags
}

const toolNames = "exthost tools list shows the names"

// unmatched returns the warning about p, which matches none of known. list says what shows those.
func unmatched(p builtin.Pattern, known []string, list string) protocol.Diagnostic {
	d := protocol.Diagnostic{
		Level:   protocol.LevelWarn,
		Code:    CodeUnmatched,
		Hint:    list,
		Message: fmt.Sprintf("%q of %s matches no %s", p.Glob, p.Field, strings.TrimSuffix(p.Of, "s")),
	}
	if near := text.Nearest(p.Glob, known); near != "" {
		d.Hint = fmt.Sprintf("did you mean %q? %s", near, list)
	}
	return d
}

// UnmatchedHooks returns a warning for each registered name in the matcher of a hook of the configuration that is
// that of no tool. Other names may be of programs that share their hooks with the host.
func (k *Known) UnmatchedHooks(specs []manifest.HookSpec) (diags []protocol.Diagnostic) {
	for i, spec := range specs {
		m, err := glob.ParseMatcher(spec.Matcher)
		if err != nil {
			continue // which no configuration in force has
		}
		for _, name := range m.Names() {
			p := builtin.Pattern{Of: "tools", Field: strict.Index("hooks", i) + ".matcher", Glob: name}
			if strings.HasPrefix(name, "ext_") && !k.covers(p, k.Tools) {
				diags = append(diags, unmatched(p, k.Tools, toolNames))
			}
		}
	}
	return diags
}

// Name tells the policies which extensions exist, so that they know which one a pattern of registered names
// means.
func (set *Set) Name(extensions []string) {
	prefixes := make(glob.Prefixes, len(extensions))
	for _, id := range extensions {
		prefixes[id] = tools.Prefix(id)
	}
	for _, m := range set.Members {
		if p, ok := m.Policy.(builtin.Namer); ok {
			p.Name(prefixes)
		}
	}
}

// fits reports whether a pattern may match a name that begins with prefix, by the text before its first wildcard.
func fits(pattern, prefix string) bool {
	literal := glob.Literal(pattern)
	return strings.HasPrefix(literal, prefix) || literal != pattern && strings.HasPrefix(prefix, literal)
}
