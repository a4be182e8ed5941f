package operate

import (
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
