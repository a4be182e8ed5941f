package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

// mortal is an instance that ends on kill and counts its calls.
type mortal struct {
	deadly   chan struct{}
	once     sync.Once
	inFlight atomic.Int32
}

func (m *mortal) Serve(ctx context.Context, ready func()) error {
	ready()
	select {
	case <-m.deadly:
		return errCrash
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *mortal) kill() { m.once.Do(func() { close(m.deadly) }) }

// TestStorm runs many callers, kills, restarts and releases at once, in real time. Every call has one outcome, no
// instance ever has more calls than MaxInFlight, and no call is left at the end.
func TestStorm(t *testing.T) {
	const maxInFlight = 3
	for _, mode := range []Mode{Shared, PerKey, Fixed(3)} {
		g := NewGroup(func(string) (*mortal, error) { return &mortal{deadly: make(chan struct{})}, nil }, Options{
			Mode:         mode,
			MaxInstances: 3,
			MaxInFlight:  maxInFlight,
			MaxQueue:     4,
			DrainTimeout: time.Second,
			Ended:        func(err error) bool { return errors.Is(err, errCrash) },
			Restart:      Restart{MaxAttempts: -1, BaseBackoff: time.Microsecond, MaxBackoff: time.Microsecond},
		})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		var served, refused atomic.Int64
		for i := range 16 {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 0))
				for range storm / 50 {
					key := string(rune('a' + random.IntN(5)))
					m, release, err := g.Acquire(t.Context(), key)
					if err != nil {
						refused.Add(1)
						if e := (*protocol.Error)(nil); !errors.As(err, &e) {
							t.Errorf("refused with %v", err)
						}
						continue
					}
					served.Add(1)
					if m.inFlight.Add(1) > maxInFlight {
						t.Error("too many calls on one instance")
					}
					outcome := [...]error{nil, errApp, errHang}[random.IntN(3)]
					switch random.IntN(100) {
					case 0:
						m.kill()
						outcome = errCrash
					case 1:
						g.Release(key)
					}
					m.inFlight.Add(-1)
					release(outcome)
				}
			})
		}
		callers.Wait()
		for _, s := range g.Status() {
			if s.InFlight != 0 || s.Queued != 0 {
				t.Errorf("mode %d: %+v", mode, s)
			}
		}
		if err := g.Stop(t.Context(), 0); err != nil {
			t.Error(err)
		}
		if served.Load() == 0 {
			t.Errorf("mode %d: %d calls served, %d refused", mode, served.Load(), refused.Load())
		}
	}
}
