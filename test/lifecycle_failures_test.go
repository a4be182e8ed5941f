package test

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// TestReasonOfFailures checks that status and log give the reason of the last failure in one line, without secrets and
// control characters, whatever the extension writes.
func TestReasonOfFailures(t *testing.T) {
	processtest.Leaks(t)
	const canary, found = "SUPERSECRETCANARY", "ghp_0123456789abcdefghijABCDEFGHIJ456789"
	f := hosttest.NewFolder(t)
	says := func(tool, words string) {
		f.Add(tool, "[requires]\nenv = [\"MY_TOKEN\"]\n[transport]\nkind = \"exec\"\n[[tools]]\nname = "+
			"\"fails\"\ncommand = [\"sh\", \"-c\", '''printf '"+words+"' >&2; exit 4''']\n"+
			"[[tools]]\nname = \"fine\"\ncommand = [\"true\"]\n")
	}
	says("plain", "no access with "+canary)
	says("found", "no access with "+found)
	says("long", strings.Repeat("no access ", 40))
	var log bytes.Buffer
	h := f.Open(exthost.Options{
		Environ: []string{"PATH=" + os.Getenv("PATH"), "MY_TOKEN=" + canary},
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, id := range []string{"plain", "found", "long"} {
		_, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_fails", nil)
		if protocol.KindOf(err) != protocol.ExtensionError {
			t.Fatal(err)
		}
		x := hosttest.StatusOf(t, h, id)
		reason := x.LastFailure.Reason
		if !strings.Contains(reason, "no access") || len(reason) > 240 ||
			strings.ContainsFunc(reason, unicode.IsControl) || x.FailedInRow != 1 {
			t.Errorf("%s: %d in a row: %q", id, x.FailedInRow, reason)
		}
		if strings.Contains(reason, canary) || strings.Contains(reason, found) {
			t.Errorf("%s: a secret is told: %s", id, reason)
		}
		if _, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_fine", nil); err != nil ||
			hosttest.StatusOf(t, h, id).FailedInRow != 0 {
			t.Errorf("after a call that succeeded: %v, %+v", err, hosttest.StatusOf(t, h, id))
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), `msg="a call failed"`); n != 3 ||
		!strings.Contains(log.String(), "exthost status long") || strings.Contains(log.String(), canary) {
		t.Errorf("%d of 3 failures are in the log:\n%s", n, &log)
	}
}
