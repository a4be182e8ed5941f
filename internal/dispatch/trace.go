package dispatch

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
)

// traceID is the trace that params belong to by their _meta.traceparent, as W3C
// Trace Context spells it; "" when there is none.
func traceID(params json.RawMessage) string {
	if !bytes.Contains(params, []byte("traceparent")) {
		return "" // most calls: a search is many times faster than a scan
	}
	text, _ := rawjson.Text(rawjson.Get(rawjson.Get(params, "_meta"), "traceparent"))
	if version, rest, ok := strings.Cut(text, "-"); ok && len(version) == 2 && len(rest) >= 35 && rest[32] == '-' && isLowerHex(rest[:32]) {
		return strings.Clone(rest[:32]) // the text may be long, and the trace is kept
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
