package protocol

import "strings"

// TraceContext is a position in a trace, as messages state it (W3C Trace Context). The zero value is none.
type TraceContext struct {
	Parent string // traceparent: trace, span and flags
	State  string // tracestate; "": none
}

// ID returns the trace id, "" if none.
func (t TraceContext) ID() string {
	version, rest, ok := strings.Cut(t.Parent, "-")
	if ok && len(version) == 2 && version != "ff" && len(rest) >= 35 && rest[32] == '-' && isLowerHex(rest[:32]) &&
		strings.Trim(rest[:32], "0") != "" {
		return strings.Clone(rest[:32]) // cloned: the text may be long, and the id is kept
	}
	return ""
}

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
