package supervisor

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

// modelBreaker is the simplest implementation of the breaker's documentation.
type modelBreaker struct {
	faults, round int
	open, half    bool
	probe         bool
	until         time.Time
	timeout       time.Duration
}

func (m *modelBreaker) admit(now time.Time) (round int, ok bool) {
	if m.open && !now.Before(m.until) {
		m.open, m.half = false, true
		m.round++
	}
	if m.open || m.half && m.probe {
		return 0, false
	}
	m.probe = m.half
	return m.round, true
}

func (m *modelBreaker) report(now time.Time, round int, o outcome) {
	if round != m.round {
		return
	}
	switch {
	case m.half && o == excluded:
		m.probe = false
	case m.half && o == succeeded:
		*m = modelBreaker{round: m.round + 1}
	case m.half:
		*m = modelBreaker{round: m.round + 1, open: true, timeout: min(2*m.timeout, 2*time.Minute)}
		m.until = now.Add(m.timeout)
	case o == succeeded:
		m.faults = 0
	case o == faulted:
		if m.faults++; m.faults == 5 {
			*m = modelBreaker{
				round:   m.round + 1,
				open:    true,
				timeout: 10 * time.Second,
				until:   now.Add(10 * time.Second),
			}
		}
	}
}

func (m *modelBreaker) state() BreakerState {
	switch {
	case m.open:
		return BreakerOpen
	case m.half:
		return BreakerHalfOpen
	}
	return BreakerClosed
}

func TestBreakerModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(3, 3))
		b, m := newBreaker("x", defaults.Breaker), new(modelBreaker)
		type pair struct {
			ticket ticket
			round  int
		}
		var inFlight []pair
		seen := map[BreakerState]int{}
		longest := time.Duration(0)
		for i := range storm {
			switch random.IntN(5) {
			case 0:
				if b.state != BreakerClosed { // whole seconds, so that it often hits the limit exactly
					time.Sleep(time.Duration(random.IntN(20)) * time.Second)
				}
			case 1, 2:
				round, want := m.admit(time.Now())
				got := b.permits(time.Now())
				if got != want {
					t.Fatalf("event %d: permits %v, want %v", i, got, want)
				}
				if got {
					inFlight = append(inFlight, pair{b.admit(), round})
				}
			default:
				if len(inFlight) == 0 {
					break
				}
				k := random.IntN(len(inFlight))
				o := [...]outcome{
					succeeded,
					excluded,
					faulted,
					faulted,
					faulted,
					faulted,
					faulted,
					faulted,
				}[random.IntN(8)]
				b.report(inFlight[k].ticket, o)
				m.report(time.Now(), inFlight[k].round, o)
				inFlight[k] = inFlight[len(inFlight)-1]
				inFlight = inFlight[:len(inFlight)-1]
			}
			if b.state != m.state() || b.state == BreakerOpen && !b.until.Equal(m.until) {
				t.Fatalf("event %d: %s until %s, want %s until %s", i, b.state, b.until, m.state(), m.until)
			}
			seen[b.state]++
			longest = max(longest, m.timeout)
		}
		if len(seen) < 3 || longest < 2*time.Minute {
			t.Errorf("seen %v and timeouts up to %s: the events prove little", seen, longest)
		}
	})
}

// openBreaker opens the breaker by five faults on f.
func (w *world) openBreaker(f *fake) {
	w.t.Helper()
	for range 5 {
		c := w.acquire("")
		c.got(w.t, f)
		c.release(&protocol.Error{Kind: protocol.CallTimeout})
	}
	w.acquire("").refused(w.t, protocol.BreakerOpen)
}

func TestApplicationErrorsDoNotCount(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		for i := range 1000 {
			c := w.acquire("")
			c.got(t, f)
			switch i % 5 {
			default:
				c.release(errApp)
			case 1:
				c.release(protocol.Errorf(protocol.Canceled, "caller left"))
			case 2:
				c.release(&protocol.Error{Kind: protocol.CallTimeout}) // a fault, but never five in a row
			}
		}
	})
}

func TestBreakerDoubles(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		w.openBreaker(f)
		for _, timeout := range []time.Duration{10, 20, 40, 80, 120, 120} {
			timeout *= time.Second
			if e := w.acquire("").refused(t, protocol.BreakerOpen); e.RetryAfter != timeout {
				t.Fatalf("retry after %s, want %s", e.RetryAfter, timeout)
			}
			time.Sleep(timeout - 1)
			if e := w.acquire("").refused(t, protocol.BreakerOpen); e.RetryAfter != 1 {
				t.Fatalf("retry after %s, want 1ns", e.RetryAfter)
			}
			time.Sleep(time.Nanosecond)
			probe := w.acquire("")
			probe.got(t, f)
			probe.release(&protocol.Error{Kind: protocol.CallTimeout})
		}
		time.Sleep(2 * time.Minute)
		probe := w.acquire("")
		probe.got(t, f)
		probe.release(nil)
		w.openBreaker(f) // it takes five faults again, and stays open for the initial timeout
		if s := w.Status()[0]; s.Breaker != BreakerOpen || time.Until(s.BreakerUntil) != 10*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

func TestOneProbe(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		w.openBreaker(f)
		stale := w.Status()[0].Since
		time.Sleep(10 * time.Second)
		calls := make([]*call, 1000)
		for i := range calls {
			c := &call{result: make(chan answer, 1)}
			calls[i] = c
			go func() {
				f, release, err := w.Acquire(t.Context(), "")
				c.result <- answer{f, release, err, 0}
			}()
		}
		var probe *call
		for _, c := range calls {
			c.look()
			switch {
			case c.err != nil:
				if e := c.refused(t, protocol.BreakerOpen); e.RetryAfter <= 0 {
					t.Fatalf("refused without a time to retry: %+v", e)
				}
			case probe != nil:
				t.Fatal("two probes")
			default:
				probe = c
			}
		}
		// A hanging probe keeps other calls out; after a canceled probe the next call is the probe.
		time.Sleep(time.Hour)
		w.acquire("").refused(t, protocol.BreakerOpen)
		probe.release(protocol.Errorf(protocol.Canceled, "caller left"))
		next := w.acquire("")
		next.got(t, f)
		w.acquire("").refused(t, protocol.BreakerOpen)
		next.release(errApp) // an answer
		c := w.acquire("")
		c.got(t, f)
		c.release(nil)
		if s := w.Status()[0]; s.Breaker != BreakerClosed || s.Since != stale {
			t.Errorf("%+v: the slot should have been Ready throughout", s)
		}
	})
}

func TestBreakerFreshAfterRespawn(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: 5}}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		w.openBreaker(f)
		f.die(errCrash)
		w.take().becomeReady()
		c := w.acquire("")
		if c.err != nil {
			t.Fatal(c.err)
		}
		c.release(nil)
		var changes []BreakerState
		for _, e := range w.events {
			if e.Kind == BreakerChanged {
				changes = append(changes, e.Breaker)
			}
		}
		if len(changes) != 2 || changes[0] != BreakerOpen || changes[1] != BreakerClosed {
			t.Errorf("breaker events %v, want open, closed", changes)
		}
	})
}
