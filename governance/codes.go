package governance

import "slices"

// Codes that the pipeline itself gives to denials.
const (
	CodeUnavailable         = "governance_unavailable" // a required policy could not decide
	CodeApprovalDenied      = "approval_denied"        // a person said no
	CodeApprovalExpired     = "approval_expired"       // nobody answered in time
	CodeApprovalUnavailable = "approval_unavailable"   // there is nobody to ask
)

// categoryCodes are what a denial without a code of its own gets.
var categoryCodes = map[Category]string{
	Authentication: "unauthenticated",
	Authorization:  "unauthorized",
	RateLimiting:   "rate_limited",
	Validation:     "invalid_request",
}

func (c Category) code() string {
	if code := categoryCodes[c]; code != "" {
		return code
	}
	return "rejected"
}

// bounded are the codes that metrics may name.
var bounded = []string{
	"approval_denied", "approval_expired", "approval_unavailable", "budget_exceeded", "descriptor_changed",
	"governance_unavailable", "invalid_request", "loop_detected", "rate_limited", "rejected", "result_too_large",
	"secret_found", "unauthenticated", "unauthorized",
}

// BoundedCode returns code when it is one of the project's own, else "other":
// codes are a policy's free choice, and metrics keep each one they see.
func BoundedCode(code string) string {
	if _, known := slices.BinarySearch(bounded, code); known || code == "" {
		return code
	}
	return "other"
}
