package exthost

import (
	"log/slog"
	"testing"

	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/diagnostics"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/supervisor"
)

// An instance that is ready ends what is said of earlier starts, also with a next step, but not of a newer build.
func TestReadyEndsFailedStarts(t *testing.T) {
	h := &Host{diagnostics: diagnostics.New(slog.New(slog.DiscardHandler))}
	h.reloads.h = h
	for _, hint := range []string{"", "exthost secret set hub", newerBuild} {
		h.diagnostics.Add(protocol.Diagnostic{
			Level:     protocol.LevelError,
			Extension: "x",
			Message:   unit.StartFailed + "why " + hint,
			Hint:      hint,
		})
	}
	h.reloads.started("x", supervisor.Event{Kind: supervisor.StateChanged, State: supervisor.Ready})
	if left := h.diagnostics.All(nil); len(left) != 1 || left[0].Hint != newerBuild {
		t.Errorf("%+v", left)
	}
}
