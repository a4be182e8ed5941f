//go:build !slim

package traces

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// span is the span of one call, named and described according to the OpenTelemetry semantic conventions for MCP and
// generative AI.
type span struct {
	t         *Tracer
	ctx       context.Context // contains the span
	instances []trace.Span    // not ended yet, oldest first

	mu      sync.Mutex      // guards current
	current context.Context // contains the span of the latest instance
}

// w3c reads and writes trace contexts. Baggage is not passed on.
var w3c propagation.TraceContext

// Begin implements exthost.Tracer.
func (t *Tracer) Begin(ctx context.Context, parent protocol.TraceContext, at time.Time,
) (context.Context, exthost.Span) {
	if parent.Parent != "" {
		ctx = w3c.Extract(ctx, propagation.MapCarrier{"traceparent": parent.Parent, "tracestate": parent.State})
	}
	ctx, _ = t.tracer.Start(ctx, "call", trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, &span{t: t, ctx: ctx, current: ctx}
}

// Context implements exthost.Span.
func (s *span) Context() protocol.TraceContext { return contextOf(s.ctx) }

func contextOf(ctx context.Context) protocol.TraceContext {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return protocol.TraceContext{Parent: carrier["traceparent"], State: carrier["tracestate"]}
}

// Send implements exthost.Span.
func (s *span) Send(at time.Time) protocol.TraceContext {
	ctx, instance := s.t.tracer.Start(s.ctx, "instance", trace.WithTimestamp(at),
		trace.WithSpanKind(trace.SpanKindClient))
	s.instances = append(s.instances, instance)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = ctx
	return contextOf(ctx)
}

// Ask implements exthost.Span.
func (s *span) Ask(at time.Time, method string) (end func(time.Time, status.Outcome)) {
	s.mu.Lock()
	below := s.current
	s.mu.Unlock()
	_, asked := s.t.tracer.Start(below, method, trace.WithTimestamp(at), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("mcp.method.name", method)))
	return func(at time.Time, o status.Outcome) {
		failed(asked, o)
		asked.End(trace.WithTimestamp(at))
	}
}

// End implements exthost.Span. Spans contain no arguments, results or error texts, which may quote them.
func (s *span) End(at time.Time, e *status.CallEvent) {
	call, began := trace.SpanFromContext(s.ctx), at.Add(-time.Duration(e.Took))
	defer func() {
		for _, instance := range s.instances { // their stages were beyond the limit of kept stages
			instance.End(trace.WithTimestamp(at))
		}
		call.End(trace.WithTimestamp(at))
	}()
	if !call.IsRecording() {
		return
	}
	about := concerning(e)
	call.SetName(nameOf(e))
	call.SetAttributes(append(about, ofCaller(e)...)...)
	failed(call, e.Outcome)
	for _, stage := range e.Stages {
		s.stage(began, stage, e, about)
	}
}

// stage creates the span of a stage, or ends the one that Send began.
func (s *span) stage(began time.Time, stage status.Stage, e *status.CallEvent, about []attribute.KeyValue) {
	from := began.Add(time.Duration(stage.At))
	to := trace.WithTimestamp(from.Add(time.Duration(stage.Took)))
	named := attribute.String("exthost.stage", stage.Name.String())
	if stage.Name != status.StageInstance || len(s.instances) == 0 {
		_, part := s.t.tracer.Start(s.ctx, stage.Name.String(), trace.WithTimestamp(from), trace.WithAttributes(named))
		part.End(to)
		return
	}
	instance := s.instances[0]
	s.instances = s.instances[1:]
	instance.SetName(nameOf(e))
	instance.SetAttributes(append(about, named)...)
	if len(s.instances) == 0 { // an earlier instance ended without an outcome
		failed(instance, e.Outcome)
	}
	instance.End(to)
}

// nameOf returns the span name of a call, of low cardinality.
func nameOf(e *status.CallEvent) string {
	if e.Tool != "" {
		return e.Method + " " + e.Tool
	}
	return e.Method
}

// concerning returns the attributes for what was called.
func concerning(e *status.CallEvent) []attribute.KeyValue {
	list := []attribute.KeyValue{attribute.String("mcp.method.name", e.Method)}
	if e.Tool != "" {
		list = append(list, attribute.String("gen_ai.tool.name", e.Tool))
	}
	if e.Method == protocol.MethodToolsCall {
		list = append(list, attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	if e.Extension != "" {
		list = append(list, attribute.String("exthost.extension", e.Extension))
	}
	return list
}

// ofCaller returns the attributes for the caller and the decision.
func ofCaller(e *status.CallEvent) (list []attribute.KeyValue) {
	for _, a := range []struct{ key, value string }{
		{"mcp.session.id", e.Session}, {"mcp.protocol.version", e.Protocol}, {"exthost.caller", e.Caller},
		{"exthost.decision.id", e.Decision}, {"exthost.policy", e.Policy}, {"exthost.policy.code", e.Code},
	} {
		if a.value != "" {
			list = append(list, attribute.String(a.key, a.value))
		}
	}
	switch e.Front {
	case protocol.FrontStdio:
		list = append(list, attribute.String("network.transport", "pipe"))
	case protocol.FrontHTTP, protocol.FrontSSE:
		list = append(list, attribute.String("network.transport", "tcp"),
			attribute.String("network.protocol.name", "http"))
	}
	if e.Replayed {
		list = append(list, attribute.Bool("exthost.replayed", true))
	}
	return list
}

// failed sets the error type of a span.
func failed(s trace.Span, o status.Outcome) {
	if o != status.OutcomeOK {
		s.SetAttributes(attribute.String("error.type", string(o)))
		s.SetStatus(codes.Error, "")
	}
}
