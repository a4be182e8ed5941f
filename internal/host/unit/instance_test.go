package unit

import (
	"context"
	"errors"
	"testing"
)

// After a request that the server refused, the next one is always sent, even for the previous level: the server may
// have changed its level all the same. AskedLogLevel returns the requested level, unless the caller gave up.
func TestLogLevelCountsOnceItIsAccepted(t *testing.T) {
	const info, warning = 1, 3
	i := &Instance{logTurn: make(chan struct{}, 1)}
	i.logLevel.Store(NoLogLevel)
	i.logAsked.Store(NoLogLevel)
	refused := errors.New("refused")
	for n, tt := range []struct {
		wanted     int
		answer     error // context.Canceled: the caller gives up
		asks       bool
		has, asked int
	}{
		{info, refused, true, NoLogLevel, info},
		{info, context.Canceled, true, NoLogLevel, NoLogLevel},
		{info, nil, true, info, info},
		{info, nil, false, info, info},
		{warning, refused, true, NoLogLevel, warning},
		{info, nil, true, info, info},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asks := false
		err := i.SetLogLevel(ctx, func() int { return tt.wanted }, func(int) error {
			asks = true
			if tt.answer == context.Canceled {
				cancel()
			}
			return tt.answer
		})
		cancel()
		if err != tt.answer || asks != tt.asks || i.LogLevel() != tt.has || i.AskedLogLevel() != tt.asked {
			t.Errorf("step %d: %v, asks %v, has %d, was asked for %d", n, err, asks, i.LogLevel(), i.AskedLogLevel())
		}
	}
}
