// Package builtin holds the policies that need no process.
package builtin

import (
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
)

// New makes the policy that s.Builtin names, of s.Config. Its errors say what is
// wrong with the config and what would be right.
func New(s governance.Spec) (governance.Policy, error) {
	if s.Builtin == "" {
		return nil, wrong("builtin", "a policy needs a builtin, a cmd or an mcp block; the built-in ones are %s", strings.Join(Names(), ", "))
	}
	maker, ok := makers[s.Builtin]
	if !ok {
		return nil, wrong("builtin", "there is no built-in policy %q; there are %s", s.Builtin, strings.Join(Names(), ", "))
	}
	return maker(s)
}

// Names returns what Spec.Builtin may say, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// makers are the built-in policies by name.
var makers = map[string]func(governance.Spec) (governance.Policy, error){
	"access":     newAccess,
	"approval":   newApproval,
	"budget":     newBudget,
	"cel":        newCEL,
	"loop":       newLoop,
	"pin":        newPin,
	"rate_limit": newRateLimit,
	"redact":     newRedaction,
	"schema":     newSchema,
	"size_cap":   newSizeCap,
}
