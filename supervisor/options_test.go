package supervisor

import (
	"context"
	"fmt"
	"testing"

	"github.com/exthost/exthost/protocol"
)

func TestOutcomeOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want outcome
	}{
		{nil, succeeded},
		{errApp, succeeded},
		{fmt.Errorf("wrapped: %w", errApp), succeeded},
		{errCrash, faulted},
		{fmt.Errorf("wrapped: %w", errCrash), faulted},
		{protocol.Errorf(protocol.CallTimeout, "30 s"), faulted},
		{protocol.Errorf(protocol.CallTimeout, "caller left: %w", context.Canceled), excluded},
		{context.DeadlineExceeded, excluded}, // the caller's own
		{context.Canceled, excluded},
		{protocol.Errorf(protocol.Rejected, "policy"), excluded},
		{protocol.Errorf(protocol.InvalidArguments, "city: missing"), excluded},
		{fmt.Errorf("unknown"), excluded},
	} {
		if got := defaults.outcomeOf(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
	all := Options{Fault: func(error) bool { return true }}.withDefaults()
	if all.outcomeOf(errApp) != faulted {
		t.Error("Options.Fault has the first word")
	}
}
