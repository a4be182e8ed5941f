package supervisor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

func TestQueueIsBoundedAndFair(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1, MaxQueue: 2, QueueTimeout: 5 * time.Second}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		running, first := w.acquire(""), w.acquire("")
		time.Sleep(time.Second)
		second := w.acquire("")
		w.acquire("").refused(t, protocol.Overloaded)
		running.release(nil)
		running.release(nil) // a second release does nothing
		first.got(t, f)
		second.waits(t)
		time.Sleep(5*time.Second - 1)
		second.waits(t)
		time.Sleep(time.Nanosecond)
		second.refused(t, protocol.Overloaded)
		first.release(nil)
		w.acquire("").got(t, f)
	})
}

func TestNegativeMaxQueueMeansNone(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1, MaxQueue: -1}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		w.acquire("").got(t, f)
		w.acquire("").refused(t, protocol.Overloaded)
	})
}

// QueueTimeout bounds the wait for room, not the wait for a slow start.
func TestQueueTimeoutStartsWhenReady(t *testing.T) {
	inBubble(t, Options{Lazy: true, MaxInFlight: 1, QueueTimeout: 5 * time.Second}, func(t *testing.T, w *world) {
		first, second := w.acquire(""), w.acquire("")
		f := w.take()
		time.Sleep(12 * time.Second)
		first.waits(t)
		f.becomeReady()
		first.got(t, f)
		time.Sleep(5*time.Second - 1)
		second.waits(t)
		time.Sleep(time.Nanosecond)
		second.refused(t, protocol.Overloaded)
		if second.at != 17*time.Second {
			t.Errorf("refused at %s", second.at)
		}
	})
}

func TestContextEndsInQueue(t *testing.T) {
	inBubble(t, Options{Lazy: true, MaxInFlight: 1}, func(t *testing.T, w *world) {
		withTimeout := func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Second)
		}
		ctx, cancel := withTimeout()
		defer cancel()
		c := w.acquireCtx(ctx, "")
		time.Sleep(time.Second)
		if e := c.refused(t, protocol.NotReady); !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%v hides its cause", e)
		}
		w.take().becomeReady()
		running := w.acquire("")

		ctx, cancel = withTimeout()
		defer cancel()
		c = w.acquireCtx(ctx, "")
		time.Sleep(time.Second)
		if e := c.refused(t, protocol.Overloaded); !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%v hides its cause", e)
		}
		w.acquireCtx(ctx, "").refused(t, protocol.Canceled) // ended before it began

		ctx, cancel = context.WithCancel(context.Background())
		c = w.acquireCtx(ctx, "")
		next := w.acquire("")
		cancel()
		c.refused(t, protocol.Canceled)
		next.waits(t)
		running.release(nil)
		next.got(t, running.fake)
		if s := w.Status()[0]; s.InFlight != 1 || s.Queued != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCallsWhileRestarting(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: -1}}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		waited, refused := 0, 0
		for waited == 0 || refused == 0 {
			c := w.acquire("")
			c.got(t, f)
			f.die(errCrash)
			s := w.Status()[0]
			due := time.Until(s.Next)
			switch {
			case s.State == Spawning: // the first restart is immediate
			case due <= 3*time.Second:
				waited++
				c := w.acquire("")
				c.waits(t)
				time.Sleep(due)
				f = w.take()
				f.becomeReady()
				c.got(t, f)
				c.release(nil)
				continue
			default:
				refused++
				e := w.acquire("").refused(t, protocol.NotReady)
				if e.RetryAfter != due || time.Duration(e.Evidence.NextRetry) != due || !errors.Is(e, errCrash) {
					t.Fatalf("%+v, want a retry in %s", e, due)
				}
				time.Sleep(due)
			}
			f = w.take()
			f.becomeReady()
		}
	})
}

// A waiting call is refused once its instance's next start is too far off.
func TestWaiterRefusedByBackoff(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: -1, BaseBackoff: time.Hour, MaxBackoff: time.Hour}},
		func(t *testing.T, w *world) {
			w.started(1)[0].die(errCrash)
			f := w.take()
			c := w.acquire("")
			c.waits(t)
			f.die(errCrash)
			c.refused(t, protocol.NotReady)
		})
}

func TestLazyStartsOnFirstCall(t *testing.T) {
	o := five
	o.Lazy = true
	inBubble(t, o, func(t *testing.T, w *world) {
		if err := w.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.noneBorn()
		c, second := w.acquire(""), w.acquire("")
		f := w.take()
		w.noneBorn()
		f.becomeReady()
		c.got(t, f)
		second.got(t, f)

		// After a failure the slot waits for the next call.
		f.die(errCrash)
		time.Sleep(time.Minute)
		w.noneBorn()
		w.wantState(Restarting)
		c = w.acquire("")
		f = w.take()
		f.becomeReady()
		c.got(t, f)
	})
}

// Calls that wait for an on-demand start get its error. The slot does not retry by itself, but failures count against
// the budget.
func TestLazyStartFailure(t *testing.T) {
	inBubble(t, Options{Lazy: true, Restart: Restart{MaxAttempts: 2}}, func(t *testing.T, w *world) {
		for range 2 {
			c, second := w.acquire(""), w.acquire("")
			w.take().die(errCrash)
			c.look()
			second.look()
			if !errors.Is(c.err, errCrash) || !errors.Is(second.err, errCrash) {
				t.Fatalf("%v, %v", c.err, second.err)
			}
			time.Sleep(time.Minute)
			w.noneBorn()
		}
		c := w.acquire("")
		w.take().die(errCrash)
		c.refused(t, protocol.Failed)
		w.acquire("").refused(t, protocol.Failed)
	})
}

// A call can wait for the restart of a lazy slot.
func TestLazyRestartHonoursBackoff(t *testing.T) {
	o := five
	o.Lazy = true
	inBubble(t, o, func(t *testing.T, w *world) {
		for range 2 {
			c := w.acquire("")
			f := w.take()
			f.becomeReady()
			c.got(t, f)
			f.die(errCrash)
		}
		due := time.Until(w.Status()[0].Next)
		if due < 2*time.Second || due > 2400*time.Millisecond {
			t.Fatalf("due in %s", due)
		}
		c := w.acquire("")
		time.Sleep(due - 1)
		w.noneBorn()
		time.Sleep(time.Nanosecond)
		f := w.take()
		f.becomeReady()
		c.got(t, f)
	})
}

func TestIdleTimeout(t *testing.T) {
	inBubble(t, Options{Lazy: true, IdleTimeout: time.Minute}, func(t *testing.T, w *world) {
		c := w.acquire("")
		f := w.take()
		f.becomeReady()
		c.got(t, f)
		time.Sleep(10 * time.Minute) // a call in flight keeps the instance
		c.release(nil)
		time.Sleep(time.Minute - 1)
		c = w.acquire("")
		c.got(t, f)
		c.release(nil)
		time.Sleep(time.Minute - 1)
		w.wantState(Ready)
		time.Sleep(time.Nanosecond)
		w.wantState(Idle)
		if !f.stopped.Load() {
			t.Error("still running")
		}
		c = w.acquire("")
		f = w.take()
		f.becomeReady()
		c.got(t, f)
	})
}

// A call can see the end of an instance before Serve returns. Later calls then wait for the next instance.
func TestInstanceThatEndedTakesNoMoreCalls(t *testing.T) {
	ended := func(err error) bool { return errors.Is(err, errCrash) }
	inBubble(t, Options{Restart: Restart{MaxAttempts: 5}, Ended: ended}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		var dying []*call
		for range 2 * defaults.Breaker.Threshold { // otherwise the breaker would refuse the next call
			c := w.acquire("")
			c.got(t, f)
			dying = append(dying, c)
		}
		for _, c := range dying {
			c.release(errCrash)
		}
		next := w.acquire("")
		next.waits(t)
		f.die(errCrash)
		second := w.take()
		second.becomeReady()
		next.got(t, second)
	})
}
