// Package builtin implements the policies that run in the host's process.
package builtin

import (
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
)

// New returns the policy that s.Builtin names, configured by s.Config. Its errors name the
// key and the allowed values.
func New(s governance.Spec) (governance.Policy, error) {
	if s.Builtin == "" {
		return nil, faultf("builtin", "a policy needs a builtin, a cmd or an mcp block; the built-in ones are %s", strings.Join(Names(), ", "))
	}
	maker, ok := makers[s.Builtin]
	if !ok {
		return nil, faultf("builtin", "there is no built-in policy %q; there are %s", s.Builtin, strings.Join(Names(), ", "))
	}
	return maker(s)
}

// Names returns the values of Spec.Builtin, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// makers maps each built-in policy's name to its constructor.
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
