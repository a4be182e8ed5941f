package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/status"
)

// TraceContext is a place in a trace as messages state it (W3C Trace Context). Its zero value is
// none.
type TraceContext struct {
	Parent string // the traceparent: trace, span and flags
	State  string // the tracestate; "" for none
}

// ID returns the id of the trace, "" for none.
func (t TraceContext) ID() string {
	version, rest, ok := strings.Cut(t.Parent, "-")
	if ok && len(version) == 2 && version != "ff" && len(rest) >= 35 && rest[32] == '-' && isLowerHex(rest[:32]) &&
		strings.Trim(rest[:32], "0") != "" {
		return strings.Clone(rest[:32]) // the text may be long, and the trace is kept
	}
	return ""
}

// Tracer makes the spans of calls. Its methods are called by many goroutines at once, and return
// without waiting for anybody.
type Tracer interface {
	// Begin begins the span of a call. parent is what the caller states; the zero value for a
	// call that states nothing, and for a part of another call, whose span is in ctx then. The
	// context that Begin returns is that of the parts of the call.
	Begin(ctx context.Context, parent TraceContext, at time.Time) (context.Context, Span)
	// Report says what became of the spans.
	Report() *status.Tracing
}

// Span is the span of one call. Ask is called by many goroutines at once, the other methods by one at a
// time.
type Span interface {
	// Context is the place of the call in its trace.
	Context() TraceContext
	// Send begins the span of an instance that is given the call, and returns its place, which
	// the instance is told. A call may be given to several, one after the other.
	Send(at time.Time) TraceContext
	// Ask begins the span of a request that the instance puts to the caller meanwhile. The function
	// that it returns ends it.
	Ask(at time.Time, method string) (end func(at time.Time, o status.Outcome))
	// End ends the spans at that time. The stages of e are the parts of the call; its instance
	// stages are those that Send has begun, in that order. End must not keep e.
	End(at time.Time, e *status.CallEvent)
}

// traceOf returns the trace that params state in _meta.
func traceOf(params json.RawMessage) (t TraceContext) {
	if !bytes.Contains(params, []byte("traceparent")) {
		return t // most calls: a search is many times faster than a scan
	}
	meta := rawjson.Get(params, "_meta")
	t.Parent, _ = rawjson.Text(rawjson.Get(meta, "traceparent"))
	t.State, _ = rawjson.Text(rawjson.Get(meta, "tracestate"))
	return t
}

// withTrace returns params that state t in _meta, in place of another trace. Params whose _meta is
// no object stay as they are.
func withTrace(params json.RawMessage, t TraceContext) json.RawMessage {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	meta := rawjson.Get(params, "_meta")
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	if t.Parent == "" || meta[0] != '{' {
		return params
	}
	meta = rawjson.Set(meta, "traceparent", rawjson.AppendText(nil, t.Parent))
	if t.State != "" {
		meta = rawjson.Set(meta, "tracestate", rawjson.AppendText(nil, t.State))
	} else {
		meta = rawjson.Delete(meta, "tracestate")
	}
	return rawjson.Set(params, "_meta", meta)
}

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
