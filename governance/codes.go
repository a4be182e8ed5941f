package governance

import (
	"cmp"
	"strings"
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

// maxLabel bounds a code that is the label of a metric.
const maxLabel = 64

// BoundedCode returns code if it can be the label of a metric, else "other": a policy may return any code. It can if it
// is a name: at most 64 ASCII letters, digits, and characters of "_-.:". Who counts codes bounds how many.
func BoundedCode(code string) string {
	if len(code) > maxLabel || strings.ContainsFunc(code, func(c rune) bool { return !isCode(c) }) {
		return "other"
	}
	return code
}

func isCode(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-.:", c)
}
