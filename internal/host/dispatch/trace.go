package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Tracer makes the spans of calls: exthost.Tracer, where the contract is.
type Tracer interface {
	Begin(ctx context.Context, parent protocol.TraceContext, at time.Time) (context.Context, Span)
	Report() *status.Tracing
}

// Span is the span of one call, exthost.Span.
type Span = interface {
	Context() protocol.TraceContext
	Send(at time.Time) protocol.TraceContext
	Ask(at time.Time, method string) (end func(at time.Time, o status.Outcome))
	End(at time.Time, e *status.CallEvent)
}

// traceOf returns the trace stated in _meta of params.
func traceOf(params json.RawMessage) (t protocol.TraceContext) {
	if !bytes.Contains(params, []byte("traceparent")) {
		return t // most calls: a byte search is much faster than a parse
	}
	meta := rawjson.Get(params, "_meta")
	t.Parent, _ = rawjson.Text(rawjson.Get(meta, "traceparent"))
	t.State, _ = rawjson.Text(rawjson.Get(meta, "tracestate"))
	return t
}

// withTrace returns params with t in _meta. Params whose _meta is not an object stay unchanged.
func withTrace(params json.RawMessage, t protocol.TraceContext) json.RawMessage {
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
