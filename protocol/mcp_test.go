package protocol_test

import (
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestVersions(t *testing.T) {
	for version, want := range map[string]struct{ legacy, modern bool }{
		"":                   {},
		protocol.MCP20241105: {legacy: true},
		protocol.MCP20251125: {legacy: true},
		protocol.MCP20260728: {modern: true},
		"2027-01-01":         {modern: true},
	} {
		if protocol.IsLegacy(version) != want.legacy || protocol.IsModern(version) != want.modern {
			t.Errorf("%q: legacy %t, modern %t, want %+v", version, protocol.IsLegacy(version),
				protocol.IsModern(version), want)
		}
	}
}
