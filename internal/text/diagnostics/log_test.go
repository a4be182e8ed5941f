package diagnostics

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

// What the operator has to do before a reload is allowed is the next step, instead of another reload.
func TestRefusedReloadHasItsNextStep(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler))
	for next, want := range map[string]string{"exthost trust": "exthost trust", "": "exthost reload, once it is fixed"} {
		l.SetRefused(&protocol.Error{Kind: protocol.Untrusted, Message: "no", Next: next})
		if all := l.All(nil); len(all) != 1 || all[0].Hint != want {
			t.Errorf("%q: %+v", next, all)
		}
	}
}

// An extension that keeps changing its invalid descriptors cannot fill the log; all diagnostics are kept for the
// status.
func TestLogOfDescriptorsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&text, nil)))
		for minute := range 2 {
			text.Reset()
			for round := range 10 {
				var diags []protocol.Diagnostic
				for i := range 300 {
					diags = append(diags,
						protocol.Diagnostic{
							Level:     protocol.LevelError,
							Extension: "x",
							Message:   fmt.Sprint(minute, round, i),
						})
				}
				if l.SetDescriptors(diags); len(l.All(nil)) != len(diags) {
					t.Errorf("%d are kept", len(l.All(nil)))
				}
			}
			if got := bytes.Count(text.Bytes(), []byte("\n")); got != maxLines+1 {
				t.Errorf("%d lines in minute %d", got, minute)
			}
			time.Sleep(time.Minute)
		}
	})
}
