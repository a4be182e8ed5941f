package protocol_test

import (
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestEraOf(t *testing.T) {
	for revision, want := range map[string]protocol.Era{
		"":                   protocol.EraNone,
		protocol.MCP20241105: protocol.EraLegacy,
		protocol.MCP20251125: protocol.EraLegacy,
		protocol.MCP20260728: protocol.EraModern,
		"2027-01-01":         protocol.EraModern,
	} {
		if got := protocol.EraOf(revision); got != want {
			t.Errorf("EraOf(%q) = %d, want %d", revision, got, want)
		}
	}
	if protocol.EraNone >= protocol.EraLegacy || protocol.EraLegacy >= protocol.EraModern {
		t.Error("the eras are not ordered by age")
	}
}
