package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// A call of a Go program for a session has the names and the tools of the session's toolset, and its caller; so has one
// with progress. A node that is not there takes none.
func TestCallWithOptions(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Add("x", hosttest.Child("sdk", ""))
	cfg, short := f.Config(), "my_"
	cfg.Toolsets = map[string]config.Toolset{"part": {Include: []string{"ext_x_work"}, Prefix: &short}}
	h := f.OpenWith(cfg, exthost.Options{})
	s := &protocol.Session{Toolset: "part", Caller: "ada"}

	var reports []protocol.Progress
	o := exthost.CallOptions{Session: s, Progress: func(p protocol.Progress) { reports = append(reports, p) }}
	result, err := h.CallWith(hosttest.Deadline(t), "my_x_work", nil, o)
	if err != nil || result.Text() != "done" {
		t.Errorf("%s, %v", result, err)
	}
	want := []protocol.Progress{{Done: 1, Total: 3, Message: "step"}, {Done: 2, Total: 3, Message: "step"},
		{Done: 3, Total: 3, Message: "step"}}
	if !slices.Equal(reports, want) {
		t.Errorf("%+v", reports)
	}
	if last := h.Admin().Calls(1); len(last) != 1 || last[0].Caller != "ada" {
		t.Errorf("%+v", last)
	}
	one := exthost.CallOptions{Session: &protocol.Session{Extension: "x"}}
	if result, err := h.CallWith(hosttest.Deadline(t), "greet", map[string]any{"name": "Ada"}, one); err != nil ||
		result.Text() != "Hello, Ada!" {
		t.Errorf("%s, %v", result, err)
	}
	for name, o := range map[string]exthost.CallOptions{
		"ext_x_greet":              {Session: s},
		"my_x_greet":               {Session: s},
		"ext_x_work":               {Node: "gpu1"},
		strings.Repeat("x", 1<<20): {},
	} {
		_, err := h.CallWith(hosttest.Deadline(t), name, nil, o)
		if protocol.KindOf(err) == "" || len(err.Error()) > 300 {
			t.Errorf("%.20s of %+v: %v", name, o, err)
		}
	}
}
