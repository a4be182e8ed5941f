package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

var five = Options{Restart: Restart{MaxAttempts: 5}}

func TestCrashLoopFails(t *testing.T) {
	inBubble(t, five, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		jitter := rand.New(rand.NewPCG(1, 2)) // the world's seed
		for attempt, delay := range []time.Duration{0, 2, 4, 8, 16} {
			f.die(errCrash)
			if attempt > 0 {
				delay *= time.Second
				delay += time.Duration(jitter.Int64N(int64(delay/5) + 1))
				if s := w.Status()[0]; s.State != Restarting || s.Attempt != attempt+1 || time.Until(s.Next) != delay {
					t.Fatalf("restart %d: %+v in %s, want it in %s", attempt+1, s, time.Until(s.Next), delay)
				}
				time.Sleep(delay - 1)
				w.noneBorn()
				time.Sleep(time.Nanosecond)
			}
			f = w.take()
			f.becomeReady()
		}
		f.die(errCrash)
		time.Sleep(time.Hour)
		w.noneBorn()
		e := w.acquire("").refused(t, protocol.Failed)
		if ev := e.Evidence; ev.Attempt != 5 || ev.MaxAttempts != 5 || len(ev.Stderr) != 1 || !errors.Is(e, errCrash) {
			t.Errorf("failed without its evidence: %v, %+v", e, ev)
		}
		if s := w.Status()[0]; s.State != Failed || s.Restarts != 5 {
			t.Errorf("%+v", s)
		}
	})
}

func TestHealthySlotRestartsAtOnce(t *testing.T) {
	inBubble(t, five, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		for range 20 { // far more than five, but slower than the window
			time.Sleep(10 * time.Minute)
			f.die(errCrash)
			f = w.take() // without delay
			f.becomeReady()
		}
	})
}

func TestFirstStartFailsAtOnce(t *testing.T) {
	inBubble(t, five, func(t *testing.T, w *world) {
		result := w.async(func() error { return w.Start(context.Background()) })
		w.take().die(errCrash)
		if err := <-result; !errors.Is(err, errCrash) {
			t.Errorf("Start: %v", err)
		}
		time.Sleep(time.Hour)
		w.noneBorn()
		w.wantState(Failed)
	})
}

func TestStartErrorOfConstructor(t *testing.T) {
	g := NewGroup(func(string) (*fake, error) { return nil, errCrash }, five)
	if err := g.Start(context.Background()); !errors.Is(err, errCrash) {
		t.Errorf("Start: %v", err)
	}
	if err := g.Stop(context.Background(), 0); err != nil {
		t.Error(err)
	}
}

func TestStartBoundedByContext(t *testing.T) {
	inBubble(t, five, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Start: %v", err)
		}
		w.take().becomeReady() // the start went on
		w.wantState(Ready)
	})
}

func TestPermanentErrorFailsAtOnce(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: -1}}, func(t *testing.T, w *world) {
		w.started(1)[0].die(fmt.Errorf("wrong version: %w", ErrPermanent))
		w.noneBorn()
		w.acquire("").refused(t, protocol.Failed)
	})
}

func TestServiceThatEndsByItselfIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		g := NewGroup(func(string) (endsOnce, error) { runs++; return endsOnce{runs == 1}, nil }, five)
		if err := g.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := g.Status()[0]; runs != 2 || s.State != Ready || !errors.Is(s.Err, errEnded) {
			t.Errorf("%d runs, %+v", runs, s)
		}
		if err := g.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
}

// endsOnce becomes ready and, if ends is set, returns without error.
type endsOnce struct{ ends bool }

func (s endsOnce) Serve(ctx context.Context, ready func()) error {
	ready()
	if !s.ends {
		<-ctx.Done()
	}
	return nil
}

// An instance that Restart replaces is told so, also when its drain has to end; one that is stopped is not.
func TestRestartIsACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		o := five
		o.DrainTimeout = time.Second
		g := NewGroup(func(string) (tells, error) { return tells{causes}, nil }, o)
		if err := g.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		_, release, err := g.Acquire(context.Background(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, busy := range []bool{true, false} {
			if err := g.Restart(context.Background()); err != nil {
				t.Error(err)
			}
			if err := <-causes; !errors.Is(err, ErrRestarted) {
				t.Errorf("busy %v: %v", busy, err)
			}
		}
		release(nil)
		if err := g.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		if err := <-causes; err != context.Canceled {
			t.Errorf("stopped: %v", err)
		}
	})
}

// tells becomes ready, and sends the cause of the end of its context.
type tells struct{ causes chan<- error }

func (s tells) Serve(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	s.causes <- context.Cause(ctx)
	return nil
}

func TestRestartClearsFailed(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world) { // no restarts allowed
		w.started(1)[0].die(errCrash)
		w.wantState(Failed)

		result := w.async(func() error { return w.Restart(context.Background()) })
		w.take().die(errCrash)
		if err := <-result; !errors.Is(err, errCrash) {
			t.Errorf("Restart: %v", err)
		}
		w.wantState(Failed)

		result = w.async(func() error { return w.Restart(context.Background(), "") })
		w.acquire("").waits(t)
		f := w.take()
		f.becomeReady()
		if err := <-result; err != nil {
			t.Errorf("Restart: %v", err)
		}
		if s := w.Status()[0]; s.State != Ready || s.Err != nil || s.Attempt != 0 || s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRestartForgetsFailures(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: 1}}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		for i := range 3 {
			f.die(errCrash)
			f = w.take() // at once, as the first restart
			f.becomeReady()
			f.die(errCrash)
			w.wantState(Failed)
			w.async(func() error { return w.Restart(context.Background()) })
			f = w.take()
			f.becomeReady()
			if s := w.Status()[0]; s.State != Ready || s.Attempt != 0 || s.Restarts != i+1 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestRestartDrainsThenReplaces(t *testing.T) {
	inBubble(t, five, func(t *testing.T, w *world) {
		old := w.started(1)[0]
		c := w.acquire("")
		c.got(t, old)
		result := w.async(func() error { return w.Restart(context.Background()) })
		w.wantState(Draining)
		waiting := w.acquire("")
		time.Sleep(30*time.Second - 1)
		w.noneBorn()
		waiting.waits(t)
		time.Sleep(time.Nanosecond) // DrainTimeout
		f := w.take()
		if !old.stopped.Load() {
			t.Error("the old instance goes on")
		}
		f.becomeReady()
		waiting.got(t, f)
		if err := <-result; err != nil {
			t.Error(err)
		}
		c.release(nil) // must not affect the new instance
		c.release(nil)
		if s := w.Status()[0]; s.InFlight != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Neither the calls in flight on a dead instance nor their outcomes count for the next one.
func TestAccountingSurvivesDeath(t *testing.T) {
	o := five
	o.MaxInFlight = 6
	inBubble(t, o, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		var old []*call
		for range 6 {
			old = append(old, w.acquire(""))
		}
		waiting := w.acquire("")
		waiting.waits(t)
		f.die(errCrash)
		next := w.take()
		next.becomeReady()
		waiting.got(t, next)
		for range 5 {
			w.acquire("").got(t, next)
		}
		for _, c := range old {
			c.got(t, f)
			c.release(errCrash)
		}
		w.acquire("").waits(t) // the new instance is full, and its breaker closed
		if s := w.Status()[0]; s.InFlight != 6 || s.Breaker != BreakerClosed || s.Queued != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Instances that the host ended are replaced at once, without limit.
func TestReplacedInstancesCostNothing(t *testing.T) {
	errReplaced := errors.New("given up by the host")
	inBubble(t, Options{
		Restart:  Restart{MaxAttempts: 2},
		Replaced: func(err error) bool { return errors.Is(err, errReplaced) },
	},
		func(t *testing.T, w *world) {
			f := w.started(1)[0]
			for range 10 {
				f.die(errReplaced)
				f = w.take()
				f.becomeReady()
			}
			if s := w.Status()[0]; s.State != Ready || s.Restarts != 10 || s.Attempt != 0 || w.elapsed() != 0 {
				t.Errorf("after ten replacements: %+v, %s", s, w.elapsed())
			}
		})
}
