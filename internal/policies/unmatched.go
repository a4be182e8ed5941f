package policies

import (
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/glob"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// CodeUnmatched is the code of the diagnostic about a pattern that selects nothing.
const CodeUnmatched = "pattern_unmatched"

// Known is what the patterns of policies may select.
type Known struct {
	Tools      []string // registered names
	Extensions []string // ids of extensions and destinations, also of those that do not run
	Silent     []string // those of Extensions whose tools are not known
	AnyCaller  bool     // callers have names that nobody can list
}

// callers are the callers of a host without an authorization server.
var callers = []string{"", "token"}

// Unmatched returns a warning for each pattern of a policy that selects no tool, extension or
// caller that is known: a rule with a misspelled name never applies.
func (set *Set) Unmatched(k Known) (diags []protocol.Diagnostic) {
	for _, m := range set.Members {
		for _, p := range builtin.Patterns(m.Spec) {
			known, list := k.Tools, "exthost tools list shows the names"
			switch p.Of {
			case "extensions":
				known, list = k.Extensions, "exthost list shows the ids"
			case "callers":
				known, list = callers, `a caller is "token" or "" (anonymous) without server.auth.oauth`
			}
			if selects(p, known) || p.Of == "callers" && k.AnyCaller || p.Of == "tools" && maySelect(p.Glob, k.Silent) {
				continue
			}
			hint := list
			if near := nearest.Of(p.Glob, known); near != "" {
				hint = fmt.Sprintf("did you mean %q? %s", near, list)
			}
			diags = append(diags, protocol.Diagnostic{Level: protocol.LevelWarn, Code: CodeUnmatched, Extension: status.PolicyPrefix + m.Spec.Name, Hint: hint,
				Message: fmt.Sprintf("%q of %s matches no %s", p.Glob, p.Field, strings.TrimSuffix(p.Of, "s"))})
		}
	}
	return diags
}

// Name tells the policies which extensions there are, so that they know whom a pattern of
// registered names means.
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

func selects(p builtin.Pattern, known []string) bool {
	return slices.ContainsFunc(known, (glob.List{p.Glob}).Match)
}

// maySelect reports whether a pattern may select a tool of one of the extensions: the text
// before its first wildcard fits the beginning of the names.
func maySelect(pattern string, extensions []string) bool {
	prefix := glob.Literal(pattern)
	for _, id := range extensions {
		begins := tools.Prefix(id)
		if strings.HasPrefix(prefix, begins) || prefix != pattern && strings.HasPrefix(begins, prefix) {
			return true
		}
	}
	return false
}
