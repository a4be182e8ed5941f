package hooks

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestOrderAndAbort(t *testing.T) {
	var ran []string
	handler := func(name string, priority int, reply *Reply, err error) Handler {
		return Handler{Name: name, Point: BeforeToolCall, Priority: priority, Run: func(context.Context, *Event) (*Reply, error) {
			ran = append(ran, name)
			return reply, err
		}}
	}
	for _, tt := range []struct {
		name     string
		handlers []Handler
		ran      string
		reason   string
	}{
		{"priority, then registration", []Handler{handler("c", 1, nil, nil), handler("a", -1, &Reply{}, nil), handler("b", -1, nil, nil)}, "a b c", ""},
		{"an abort ends it", []Handler{handler("a", 0, &Reply{Abort: true, Reason: "not on Mondays"}, nil), handler("b", 0, nil, nil)}, "a", "hook a: not on Mondays"},
		{"a gate that fails stays shut", []Handler{handler("a", 0, nil, errors.New("disk full"))}, "a", "hook a failed: disk full"},
		{"another point", []Handler{{Name: "x", Point: AfterToolCall}}, "", ""},
	} {
		ran = nil
		err := NewSet(tt.handlers...).Run(t.Context(), &Event{Point: BeforeToolCall, Extension: "x", Tool: "ext_x_t"})
		if got := strings.Join(ran, " "); got != tt.ran {
			t.Errorf("%s: ran %q, want %q", tt.name, got, tt.ran)
		}
		if e, ok := errors.AsType[*protocol.Error](err); tt.reason != "" && (!ok || e.Kind != protocol.Rejected || e.Message != tt.reason || e.Tool != "ext_x_t") || tt.reason == "" && err != nil {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.reason)
		}
	}
	if err := new(Set).Run(t.Context(), &Event{Point: SessionStart}); err != nil {
		t.Errorf("an empty set: %v", err)
	}
}
