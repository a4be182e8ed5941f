package governance

import (
	"cmp"
	"slices"
)

// Codes of denials that the pipeline itself issues.
const (
	CodeUnavailable         = "governance_unavailable" // a required policy could not decide
	CodeApprovalDenied      = "approval_denied"        // a person said no
	CodeApprovalExpired     = "approval_expired"       // nobody answered in time
	CodeApprovalUnavailable = "approval_unavailable"   // no approver, or it failed
)

// categoryCodes are the codes of denials whose policy states no code.
var categoryCodes = map[Category]string{
	Authentication: "unauthenticated",
	Authorization:  "unauthorized",
	RateLimiting:   "rate_limited",
	Validation:     "invalid_request",
}

func (c Category) code() string { return cmp.Or(categoryCodes[c], "rejected") }

// bounded are the codes that may be metric labels. Sorted.
var bounded = []string{
	"approval_denied", "approval_expired", "approval_unavailable", "budget_exceeded", "descriptor_changed",
	"governance_unavailable", "invalid_request", "loop_detected", "rate_limited", "rejected", "result_too_large",
	"secret_found", "unauthenticated", "unauthorized",
}

// BoundedCode returns code when the project defines it, else "other". It bounds the labels of a
// metric: a policy may return any code.
func BoundedCode(code string) string {
	if _, known := slices.BinarySearch(bounded, code); known || code == "" {
		return code
	}
	return "other"
}
