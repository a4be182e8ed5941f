package test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// noter is a tracer that records the names of spans with their parents.
type noter struct {
	mu    sync.Mutex // guards the fields below
	ids   int
	spans []string
}

// noted is the span of a call, and the key of its context.
type noted struct {
	of    *noter
	id    int
	below string
}

type spanKey struct{}

func (n *noter) Begin(ctx context.Context, parent protocol.TraceContext, _ time.Time) (context.Context, exthost.Span) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids++
	s := &noted{of: n, id: n.ids, below: parent.Parent + parent.State}
	if above, ok := ctx.Value(spanKey{}).(*noted); ok && s.below == "" {
		s.below = fmt.Sprint("call ", above.id)
	}
	return context.WithValue(ctx, spanKey{}, s), s
}

func (n *noter) Report() *status.Tracing { return &status.Tracing{Endpoint: "here"} }

func (n *noter) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spans = append(n.spans, fmt.Sprintf(format, args...))
}

func (s *noted) Context() protocol.TraceContext {
	return protocol.TraceContext{Parent: fmt.Sprintf("00-%032x-%016x-01", 7, s.id)}
}
func (s *noted) Send(time.Time) protocol.TraceContext { return s.Context() }
func (s *noted) Ask(_ time.Time, method string) func(time.Time, status.Outcome) {
	return func(_ time.Time, o status.Outcome) { s.of.note("%s %s below call %d", method, o, s.id) }
}
func (s *noted) End(_ time.Time, e *status.CallEvent) {
	s.of.note("%d: %s %s%s below %s", s.id, e.Method, e.Extension, e.Tool, s.below)
}

// Each call has a span below the caller's; the parts of a call of all extensions, and an instance's requests to
// the caller, are below that.
func TestCallsHaveSpans(t *testing.T) {
	processtest.Leaks(t)
	tracer := &noter{}
	h := hosttest.NewFolder(t).Add("a", rich("older", "")).Add("b", rich("older", "")).Open(exthost.Options{
		Tracer: tracer,
	})
	s, c := stay(t, h, "s", protocol.MCP20251125, "")
	take := func() []string {
		tracer.mu.Lock()
		defer tracer.mu.Unlock()
		list := tracer.spans
		tracer.spans, tracer.ids = nil, 0
		slices.Sort(list)
		return list
	}
	take()
	for _, tt := range []struct {
		method, params string
		want           []string
	}{
		{"tools/call", `{"name":"ext_a_ask","arguments":{"for":"sampling"},"_meta":{"traceparent":"caller's","tracestate":" state"}}`,
			[]string{"1: tools/call aext_a_ask below caller's state", "sampling/createMessage ok below call 1"}},
		{"prompts/list", `{"_meta":{"traceparent":"caller's"}}`,
			[]string{
				"1: prompts/list  below caller's",
				"2: prompts/list a below call 1",
				"3: prompts/list b below call 1",
			}},
	} {
		_, err := h.Do(hosttest.Deadline(t),
			&protocol.Call{Session: s, Client: c, Method: tt.method, Params: json.RawMessage(tt.params)})
		if err != nil {
			t.Fatal(err)
		}
		got := take()
		if tt.method == "prompts/list" && len(got) == 3 && got[1][3:] > got[2][3:] { // they run at once
			got[1], got[2] = "2"+got[2][1:], "3"+got[1][1:]
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.method, diff)
		}
	}
	if call := h.Admin().Calls(1)[0]; call.Trace != fmt.Sprintf("%032x", 7) ||
		h.Status().Tracing.Endpoint != "here" {
		t.Errorf("%+v", call)
	}
}
