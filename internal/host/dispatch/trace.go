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

// Tracer makes the spans of calls. Its methods are called concurrently and must not block.
type Tracer interface {
	// Begin begins the span of a call. parent is as stated by the caller. It is zero if none was stated, and for a
	// part of another call: then ctx has the span of that call. The returned context is used for parts of the call.
	Begin(ctx context.Context, parent TraceContext, at time.Time) (context.Context, Span)
	// Report returns the export status of the spans.
	Report() *status.Tracing
}

// Span is the span of one call. Ask is called concurrently, the other methods are not.
type Span interface {
	// Context returns the call's position in its trace.
	Context() TraceContext
	// Send begins the span of an instance that gets the call, and returns the position that the instance is told.
	// A call may go to several instances, one after another.
	Send(at time.Time) TraceContext
	// Ask begins the span of an instance's request to the caller. The returned function ends it.
	Ask(at time.Time, method string) (end func(at time.Time, o status.Outcome))
	// End ends the spans at that time. The stages of e are the parts of the call; its instance stages match the
	// spans of Send, in order. End must not keep e.
	End(at time.Time, e *status.CallEvent)
}

// traceOf returns the trace stated in _meta of params.
func traceOf(params json.RawMessage) (t TraceContext) {
	if !bytes.Contains(params, []byte("traceparent")) {
		return t // most calls: a byte search is much faster than a parse
	}
	meta := rawjson.Get(params, "_meta")
	t.Parent, _ = rawjson.Text(rawjson.Get(meta, "traceparent"))
	t.State, _ = rawjson.Text(rawjson.Get(meta, "tracestate"))
	return t
}

// withTrace returns params with t in _meta. Params whose _meta is not an object stay unchanged.
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
