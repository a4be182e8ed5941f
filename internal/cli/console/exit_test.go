package console

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

// A policy has no status of its own: its log says why it failed.
func TestNextCommandAfterAPolicy(t *testing.T) {
	for extension, want := range map[string]string{"x": "exthost status x", "policy:x": "exthost logs policy:x"} {
		if got := NextCommand(&protocol.Error{Kind: protocol.ChildExited, Extension: extension}); got != want {
			t.Errorf("after %s: %s", extension, got)
		}
	}
}

// The exit codes of all error kinds are frozen.
func TestExitCodes(t *testing.T) {
	want := map[protocol.Kind]int{
		protocol.InvalidJSON:           7,
		protocol.InvalidResponse:       7,
		protocol.ProtocolVersion:       7,
		protocol.ToolNotFound:          4,
		protocol.InvalidArguments:      2,
		protocol.ManifestInvalid:       3,
		protocol.ConfigInvalid:         3,
		protocol.RequirementMissing:    5,
		protocol.Untrusted:             6,
		protocol.DescriptorChanged:     6,
		protocol.SpawnFailed:           7,
		protocol.HandshakeTimeout:      8,
		protocol.HandshakeInvalid:      7,
		protocol.ChildExited:           7,
		protocol.LineTooLong:           7,
		protocol.StdoutClosed:          7,
		protocol.WriteStalled:          7,
		protocol.CallTimeout:           8,
		protocol.Canceled:              8,
		protocol.Overloaded:            7,
		protocol.BreakerOpen:           7,
		protocol.NotReady:              7,
		protocol.Failed:                7,
		protocol.ShuttingDown:          7,
		protocol.Rejected:              6,
		protocol.GovernanceUnavailable: 6,
		protocol.NodeLost:              7,
		protocol.ExtensionError:        7,
	}
	for _, kind := range protocol.Kinds() {
		code, known := want[kind]
		if got := ExitCode(protocol.Errorf(kind, "x")); !known || got != code {
			t.Errorf("%s is %d, want %d", kind, got, code)
		}
	}
	for err, code := range map[error]int{
		context.Canceled:         8,
		context.DeadlineExceeded: 8,
		errors.New("x"):          1,
		Usagef("", "x"):          2,
	} {
		if got := ExitCode(err); got != code {
			t.Errorf("%v is %d, want %d", err, got, code)
		}
	}
}

// Describe renders what happened, why, the evidence, and the next command.
func TestDescribe(t *testing.T) {
	e := protocol.Errorf(protocol.ChildExited, "the process ended: signal: killed")
	e.Extension, e.Tool, e.Outcome, e.RetryAfter = "db", "ext_db_query", "unknown", 2*time.Second
	e.Evidence = &protocol.Evidence{Stderr: []string{"out of memory", "bye \x1b[2J"}}
	want := strings.Join([]string{"ext_db_query: the process ended: signal: killed (child_exited)",
		"  stderr: out of memory", `  stderr: bye \u001b[2J`, "  the extension had been asked and may have acted",
		"  retry after 2s", "  next: exthost status db"}, "\n")
	if got := Describe(e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	e = protocol.Errorf(protocol.CallTimeout, "it did not answer in time; the call may have been carried out")
	e.Extension, e.Tool, e.Outcome = "db", "ext_db_query", "unknown"
	want = "ext_db_query: it did not answer in time; the call may have been carried out (call_timeout)\n" +
		"  next: exthost restart db if it hangs; raise call_timeout under [runtime] if it is only slow"
	if got := Describe(e); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Describe(errors.Join(Reported(9))); got != "" {
		t.Errorf("what was said is said again: %q", got)
	}
	if got := Describe(context.Canceled); got != "interrupted" {
		t.Errorf("got %q", got)
	}
}
