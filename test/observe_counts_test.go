package test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// A call is counted exactly once everywhere, also one that waits behind an abandoned call until the host replaces
// the process; the caller learns of the wait.
func TestCallsAreCountedOnce(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("stuck",
		"[[tools]]\nname = \"never\"\n"+hosttest.Plays("read; hang",
			"protocol = \"lite\"\n[runtime]\ncall_timeout = \"1s\"\n")).Open(exthost.Options{})
	var err error
	for range 3 {
		if _, err = h.Call(hosttest.Deadline(t), "ext_stuck_never", nil); protocol.KindOf(err) != protocol.CallTimeout {
			t.Fatal(err)
		}
	}
	if text := err.Error(); !strings.Contains(text, "before that, the call waited") ||
		!strings.Contains(text, "still busy with a call that timed out") {
		t.Errorf("the wait is not named: %s", text)
	}
	hosttest.Eventually(t, "both replacements are counted",
		func() bool { return hosttest.StatusOf(t, h, "stuck").Restarts == 2 })
	x, m := hosttest.StatusOf(t, h, "stuck"), h.Admin().Measures()
	got := map[string]int64{
		"requests":                 x.Requests,
		"calls":                    x.Calls,
		"errors":                   x.Errors,
		"refused":                  x.Refused,
		"restarts of the instance": int64(x.Instances[0].Restarts),
		"durations":                int64(m.Extensions[0].Calls.Count),
		"restarts in metrics":      m.Extensions[0].Restarts,
		"timeouts of the tool":     m.Calls[0].Count,
		"outcomes":                 int64(len(m.Calls)),
	}
	for _, p := range h.Admin().History("").Points {
		got["calls of the hour"] += p.Calls
		got["errors of the hour"] += p.Errors
	}
	diff := cmp.Diff(map[string]int64{
		"requests": 3, "calls": 3, "errors": 3, "refused": 0, "restarts of the instance": 2,
		"durations": 3, "restarts in metrics": 2, "timeouts of the tool": 3, "outcomes": 1, "calls of the hour": 3,
		"errors of the hour": 3,
	}, got)
	if diff != "" {
		t.Error(diff)
	}
}

// If the audit log cannot be written, the status says why no request passes, and the host is not ready.
func TestUnwritableAuditBlocksCalls(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Audit.Path = filepath.Join(t.TempDir(), "audit.jsonl")
	cfg.Audit.MaxSize, cfg.Audit.Keep = 1, 1
	l, err := audit.Open(audit.Options{Path: cfg.Audit.Path})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Append(t.Context(), audit.Record{Error: strings.Repeat("x", 100<<10)}) // the next one needs another file
	if err := errors.Join(l.Close(t.Context()), os.MkdirAll(cfg.Audit.Path+".1/not empty", 0o700)); err != nil {
		t.Fatal(err)
	}
	h := f.OpenWith(cfg, exthost.Options{})
	_ = hosttest.Greet(t, h, "Ada") // the first record is on its way to the disk when the call passes
	hosttest.Eventually(t, "the fault is in the status", func() bool { return h.Status().Audit.Reason != "" })
	s := h.Status()
	if p := s.Policies[0]; p.State == "ready" || !strings.Contains(p.Reason, "audit.jsonl.1") ||
		!strings.Contains(p.Reason, "make room") || len(s.Obstacles()) == 0 {
		t.Errorf("%+v, obstacles %+v", p, s.Obstacles())
	}
	if err := h.Close(); err == nil {
		t.Error("the loss of records is no error")
	}
}
