package supervisor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

const trial = 5 * time.Minute

// failedUntilTrial checks that the slot has failed and is tried again after a Trial.
func (w *world) failedUntilTrial() {
	w.t.Helper()
	w.wantState(Failed)
	e := w.acquire("").refused(w.t, protocol.Failed)
	if s := w.Status()[0]; time.Until(s.Next) != trial || e.RetryAfter != trial || !errors.Is(e, errCrash) {
		w.t.Errorf("at %s: next %v, refused with %v for %v", w.elapsed(), time.Until(s.Next), e, e.RetryAfter)
	}
}

// A failure that would be final without a Trial is followed by one start per Trial, indefinitely. An instance that
// stays up gets its budget back; one that dies soon starts no other loop of restarts.
func TestTrial(t *testing.T) {
	o := five
	o.Restart.Trial = trial
	inBubble(t, o, func(t *testing.T, w *world) {
		first := w.async(func() error { return w.Start(context.Background()) })
		w.take().die(errCrash)
		if err := <-first; !errors.Is(err, errCrash) {
			t.Errorf("Start: %v", err)
		}
		for range 30 {
			w.failedUntilTrial()
			time.Sleep(trial - 1)
			w.noneBorn()
			time.Sleep(time.Nanosecond)
			w.take().die(errCrash)
		}
		w.failedUntilTrial()
		time.Sleep(trial)
		f := w.take()
		f.becomeReady()
		time.Sleep(time.Second)
		f.die(errCrash)
		w.failedUntilTrial()
		time.Sleep(trial)
		f = w.take()
		f.becomeReady()
		time.Sleep(time.Hour)
		f.die(errCrash)
		w.take().becomeReady() // at once
	})
}

func TestTrialOfABudgetThatIsSpent(t *testing.T) {
	o := five
	o.Restart.Trial, o.Restart.BaseBackoff = trial, -1
	inBubble(t, o, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		for range 5 {
			f.die(errCrash)
			f = w.take()
		}
		f.die(errCrash)
		w.failedUntilTrial()
		time.Sleep(trial)
		w.take().becomeReady()
	})
}

func TestNoTrialWithoutRestarts(t *testing.T) {
	inBubble(t, Options{Restart: Restart{Trial: trial}}, func(t *testing.T, w *world) {
		w.started(1)[0].die(errCrash)
		time.Sleep(time.Hour)
		w.noneBorn()
		w.wantState(Failed)
	})
}

// Unlimited restarts apply to the first start too.
func TestUnlimitedRestartsOfAFirstStart(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: -1}}, func(t *testing.T, w *world) {
		first := w.async(func() error { return w.Start(context.Background()) })
		w.take().die(errCrash)
		if err := <-first; !errors.Is(err, errCrash) {
			t.Errorf("Start: %v", err)
		}
		asked := 0
		for range 100 {
			w.take().die(errCrash)
			w.wantState(Restarting)
			time.Sleep(20 * time.Second) // the longest delay, and a fifth
		}
		w.take().becomeReady()
		for _, e := range w.events {
			if e.Asked {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("%d events say that Start returns the error", asked)
		}
	})
}

// A call does not wait for the backoff. It gets the error of the start that it has caused, and causes no other.
func TestOnCall(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: -1, OnCall: true, BaseBackoff: time.Hour, MaxBackoff: time.Hour}},
		func(t *testing.T, w *world) {
			w.started(1)[0].die(errCrash)
			w.take().die(errCrash) // at once
			for range 3 {
				w.wantState(Restarting)
				if due := time.Until(w.Status()[0].Next); due < time.Minute {
					t.Fatalf("the next start is due in %v", due)
				}
				c, beside := w.acquire(""), w.acquire("")
				w.take().die(errCrash)
				for _, c := range []*call{c, beside} {
					if e := c.refused(t, protocol.NotReady); e.RetryAfter < time.Minute || !errors.Is(e, errCrash) {
						t.Errorf("%v after %v", e, e.RetryAfter)
					}
				}
				w.noneBorn()
			}
			c := w.acquire("")
			f := w.take()
			f.becomeReady()
			c.got(t, f)
			c.release(nil)
		})
}

// A blocked instance is retried slowly, and at once by a call.
func TestBlocked(t *testing.T) {
	errLogin := &protocol.Error{Kind: protocol.RequirementMissing, Message: "needs login"}
	blocked := func(err error) bool { return errors.Is(err, errLogin) }
	inBubble(t, Options{Blocked: blocked, Restart: Restart{MaxAttempts: -1, OnCall: true, Trial: trial}},
		func(t *testing.T, w *world) {
			f := w.started(1)[0]
			f.die(errCrash)
			w.take().die(errLogin)
			for range 3 {
				w.wantState(Failed)
				c := w.acquire("")
				w.take().die(errLogin)
				if e := c.refused(t, protocol.Failed); e.RetryAfter != trial || !errors.Is(e, errLogin) {
					t.Errorf("%v after %v", e, e.RetryAfter)
				}
				time.Sleep(trial - 1)
				w.noneBorn()
				time.Sleep(time.Nanosecond)
				w.take().die(errLogin)
			}
			c := w.acquire("")
			f = w.take()
			f.becomeReady()
			c.got(t, f)
			c.release(nil)
			f.die(errCrash)
			w.wantState(Restarting) // attempts are unlimited again
		})
}

// Keep is the caller's code and may call the group.
func TestKeepMayAskTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, Options{Mode: PerKey, MaxInstances: 1, Keep: func(string) bool { return len(w.Status()) > 1 }})
		for _, key := range []string{"a", "b"} {
			c := w.acquire(key)
			f := w.take()
			f.becomeReady()
			c.got(t, f)
			c.release(nil)
		}
		if err := w.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
}
