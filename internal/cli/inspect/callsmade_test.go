package inspect

import (
	"strings"
	"testing"

	"github.com/exthost/exthost/status"
)

// A call in flight is shown, although it is not counted yet.
func TestCallsInFlightAreShown(t *testing.T) {
	var i extensionInfo
	if got := i.callsMade(); !strings.HasPrefix(got, "0, 0 failed") {
		t.Error(got)
	}
	i.Requests, i.Instances = 2, []status.Instance{{InFlight: 1}, {InFlight: 1, Queued: 3}}
	if got := i.callsMade(); !strings.HasPrefix(got, "2 ended and 5 in flight, 0 failed") {
		t.Error(got)
	}
}
