package operate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// A new folder is reported as new. A folder that was left out before is reported only if nothing else has changed.
func TestReloadReportsWhatIsLeftOut(t *testing.T) {
	skipped := status.Extension{ID: "old", State: status.StateSkipped, Reason: "no python3"}
	untrusted := status.Extension{ID: "kit", State: status.StateUntrusted, Reason: "nobody has agreed"}
	both := status.Status{Extensions: []status.Extension{skipped, untrusted, {ID: "runs", State: "ready"}}}
	for n, tt := range []struct {
		before status.Status
		again  bool
		want   string
	}{
		{status.Status{Extensions: []status.Extension{skipped}}, false, "[kit: new, waits for exthost trust kit]"},
		{status.Status{Extensions: []status.Extension{skipped}}, true,
			"[old: skipped as before, no python3 kit: new, waits for exthost trust kit]"},
		{both, false, "[]"},
		{both, true, "[old: skipped as before, no python3 kit: untrusted as before, nobody has agreed]"},
		{status.Status{Extensions: []status.Extension{{ID: "old", State: "ready"}, untrusted}}, false,
			"[old: skipped, no python3]"},
	} {
		var got []string
		for _, d := range leftOut(tt.before, both, tt.again) {
			got = append(got, d.Extension+": "+d.Message)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%d: %v, want %s", n, got, tt.want)
		}
	}
}

// An extension that was down before the reload and still is makes it no failure, unlike one whose new build fails.
func TestReloadBesideWhatIsDown(t *testing.T) {
	var said bytes.Buffer
	c := &console.Console{Err: &said}
	change := status.Change{
		Changed: []string{"notes"},
		Retried: []string{"far"},
		Failed:  []protocol.Diagnostic{{Extension: "far", Message: "no connection"}},
	}
	change.Failed = sayStillDown(c, change)
	if err := notReloaded(change, 0, ""); err != nil {
		t.Errorf("a reload beside an extension that is down: %v", err)
	}
	if !strings.Contains(said.String(), "far: still down") || !strings.Contains(said.String(), "exthost status far") {
		t.Error(said.String())
	}
	change.Failed = []protocol.Diagnostic{{Extension: "notes", Message: "it ended"}}
	change.Failed = sayStillDown(c, change)
	if err := notReloaded(change, 0, ""); err == nil || console.ExitCode(err) != console.ExitExtension {
		t.Errorf("a new build that fails: %v", err)
	}
}

// Text from another node's reload is escaped for the terminal, and the next command names the node.
func TestReloadOfAnotherNodeIsEscaped(t *testing.T) {
	change := status.Change{
		Changed: []string{"\x1b[2J"},
		Restart: []string{"\x1b[2Jlog"},
		Kept:    []status.KeptBuild{{ID: "\x1b]0;", Reason: "\x1b[2J"}},
	}
	for _, text := range append(changedNames(change), changeText(&console.Console{}, change, false)) {
		if strings.Contains(text, "\x1b") {
			t.Errorf("%q", text)
		}
	}
	for want, change := range map[string]status.Change{
		"fix the errors above, then exthost reload, at node gpu1": change,
		"exthost status notes, at node gpu1": {
			Failed: []protocol.Diagnostic{{Extension: "notes", Message: "it ended"}},
		},
	} {
		if e, ok := errors.AsType[*console.Error](notReloaded(change, 0, "gpu1")); !ok || e.Hint != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
}
