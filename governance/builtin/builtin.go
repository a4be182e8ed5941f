// Package builtin implements the policies that run in the host's process.
package builtin

import (
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
)

// CEL is the name of the built-in policy that [New] cannot make. Package celpolicy makes it, in
// programs that import that package.
const CEL = "cel"

// New returns the policy that s.Builtin names, configured by s.Config. Its errors name the
// key and the allowed values.
func New(s governance.Spec) (governance.Policy, error) {
	if s.Builtin == "" {
		return nil, settings.Wrong("builtin",
			"a policy needs a builtin, a cmd or an mcp block; the built-in ones are %s", strings.Join(Names(), ", "))
	}
	maker, ok := makers[s.Builtin]
	if !ok {
		return nil, settings.Wrong("builtin", "there is no built-in policy %q; there are %s", s.Builtin,
			strings.Join(Names(), ", "))
	}
	return maker(s)
}

// Names returns the values of Spec.Builtin, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// makers maps each built-in policy's name to its constructor.
var makers = map[string]func(governance.Spec) (governance.Policy, error){
	"access":        newAccess,
	"approval":      newApproval,
	"budget":        newBudget,
	CEL:             notLinked,
	"hidden_text":   newHiddenText,
	"loop":          newLoop,
	"output_schema": newOutputSchema,
	"pin":           newPin,
	"rate_limit":    newRateLimit,
	"redact":        newRedaction,
	"schema":        newSchema,
	"size_cap":      newSizeCap,
}

func notLinked(s governance.Spec) (governance.Policy, error) {
	return nil, settings.Wrong("builtin",
		"this program does not link %s: set PolicyKinds.CEL of its exthost.Options to celpolicy.New", s.Builtin)
}

// Check returns every error in what s states for its built-in policy. It opens nothing.
func Check(s governance.Spec) []governance.Problem {
	_, err := New(s)
	return settings.Problems(err)
}

// requireRateLimiting returns an error for a policy that counts and is not of category
// rate_limiting. In other categories an exchange may be evaluated, and so counted, twice.
func requireRateLimiting(s governance.Spec) error {
	if s.Category != governance.RateLimiting {
		return settings.Wrong("category",
			"%s counts, so its category is %s, where what a hook changes is not counted again", s.Builtin,
			governance.RateLimiting)
	}
	return nil
}
