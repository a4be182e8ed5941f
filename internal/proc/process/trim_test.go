package process

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

var garbage []byte

// A process that has worked is trimmed once when it rests, and not again before it has worked again.
func TestTrimAfterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		trims := 0
		done := make(chan struct{})
		go func() {
			trimAfterWork(ctx, func() { trims++ })
			close(done)
		}()
		for n := range 3 {
			time.Sleep(5 * restPeriod)
			synctest.Wait()
			if trims != n {
				t.Errorf("%d trims after work %d times", trims, n)
			}
			for from := gcCycles(); gcCycles() < from+workCycles; {
				garbage = make([]byte, 1<<20)
			}
		}
		cancel()
		<-done
	})
}
