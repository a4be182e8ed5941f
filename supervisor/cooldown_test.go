package supervisor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

const cooldown = 30 * time.Second

// threeRestarts is a lazy group that gives up after three consecutive restarts.
var threeRestarts = Options{Lazy: true, Restart: Restart{MaxAttempts: 3, BaseBackoff: -1, Cooldown: cooldown}}

// dieOnCall kills the instance of a call during that call: one that the call starts, or the latest restart.
func (w *world) dieOnCall(key string) {
	w.t.Helper()
	c := w.acquireNew(key)
	c.die(errCrash)
	c.release(errCrash)
}

// refusedFor checks that calls of key are refused for the time want.
func (w *world) refusedFor(key string, want time.Duration) {
	w.t.Helper()
	for range 2 {
		e := w.acquire(key).refused(w.t, protocol.NotReady)
		if e.RetryAfter != want || time.Duration(e.Evidence.NextRetry) != want || len(e.Evidence.Stderr) != 1 ||
			!errors.Is(e, errCrash) {
			w.t.Fatalf("%v after %s, want %s; evidence %+v", e, e.RetryAfter, want, e.Evidence)
		}
		err, _ := w.Refusal(w.t.Context(), key).(*protocol.Error)
		if err == nil || err.Message != e.Message || err.RetryAfter != want {
			w.t.Fatalf("Refusal: %v, and Acquire: %v", err, e)
		}
	}
	w.noneBorn()
}

func TestCooldown(t *testing.T) {
	inBubble(t, threeRestarts, func(t *testing.T, w *world) {
		for range 4 {
			if err := w.Refusal(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			w.dieOnCall("")
		}
		w.refusedFor("", cooldown)
		if s := w.Status()[0]; s.State != Failed || time.Until(s.Next) != cooldown {
			t.Errorf("%+v", s)
		}
		if last := w.events[len(w.events)-1]; last.State != Failed || time.Until(last.Next) != cooldown {
			t.Errorf("the last event: %+v", last)
		}
		for range 12 { // longer than the window: the budget does not recover by itself
			time.Sleep(cooldown - 1)
			w.refusedFor("", 1)
			time.Sleep(time.Nanosecond)
			if err := w.Refusal(t.Context(), ""); err != nil {
				t.Errorf("after the cooldown: %v", err)
			}
			w.noneBorn() // a lazy slot waits for a call
			w.dieOnCall("")
			w.refusedFor("", cooldown)
		}
		time.Sleep(cooldown)
		trial, second := w.acquire(""), w.acquire("")
		f := w.take()
		w.noneBorn()
		f.die(errCrash) // before it is ready
		for _, c := range []*call{trial, second} {
			if e := c.refused(t, protocol.ChildExited); !errors.Is(e, errCrash) || e.RetryAfter != cooldown {
				t.Errorf("the caller of the trial: %v after %s", e, e.RetryAfter)
			}
		}
		w.refusedFor("", cooldown)

		time.Sleep(cooldown)
		c := w.acquireNew("")
		c.release(errApp) // any answer counts
		c.die(errCrash)
		for range 3 {
			w.dieOnCall("")
		}
		w.refusedFor("", cooldown)
	})
}

// An instance is restarted without a call, with the usual delays, and calls wait for it. A key that is released in the
// meantime gets none.
func TestKeysRestartInTheBackground(t *testing.T) {
	o := Options{Mode: PerKey, Restart: Restart{MaxAttempts: 3, Cooldown: cooldown}}
	inBubble(t, o, func(t *testing.T, w *world) {
		c := w.acquireNew("a")
		c.release(nil)
		c.die(errCrash)
		w.take().die(errCrash) // at once
		waiting := w.acquire("a")
		time.Sleep(2*time.Second - 1)
		w.noneBorn()
		time.Sleep(400*time.Millisecond + 1)
		w.take().die(errCrash)
		time.Sleep(4800 * time.Millisecond)
		waiting.waits(t)
		f := w.take()
		f.becomeReady()
		waiting.got(t, f)
		waiting.release(nil)

		c = w.acquireNew("b")
		c.die(errCrash)
		w.take().die(errCrash)
		w.Release("b")
		time.Sleep(time.Hour)
		w.noneBorn()
	})
}

// What somebody has to act for first is neither restarted nor counted: each call tries it, and gets the reason.
func TestBlockedStartsWaitForACall(t *testing.T) {
	errLogin := &protocol.Error{Kind: protocol.RequirementMissing, Message: "needs login"}
	o := threeRestarts
	o.Mode, o.Blocked = PerKey, func(err error) bool { return errors.Is(err, errLogin) }
	inBubble(t, o, func(t *testing.T, w *world) {
		for range 10 {
			c := w.acquire("eve")
			w.take().die(errLogin)
			if e := c.refused(t, protocol.RequirementMissing); e.RetryAfter != 0 {
				t.Errorf("%v after %s", e, e.RetryAfter)
			}
			time.Sleep(time.Hour)
			w.noneBorn()
		}
		w.acquireNew("eve").release(nil)
	})
}

// Only consecutive failures add up.
func TestAnswersClearFailures(t *testing.T) {
	inBubble(t, threeRestarts, func(t *testing.T, w *world) {
		for range 10 {
			w.dieOnCall("")
			c := w.acquireNew("")
			c.release(nil)
			c.die(errCrash)
		}
	})
}

func TestEagerSlotStartsItsTrialByItself(t *testing.T) {
	inBubble(t, Options{Restart: Restart{Cooldown: cooldown}}, func(t *testing.T, w *world) {
		result := w.async(func() error { return w.Start(context.Background()) })
		w.take().die(errCrash)
		if err := <-result; !errors.Is(err, errCrash) {
			t.Errorf("Start: %v", err)
		}
		for range 3 {
			w.refusedFor("", cooldown)
			time.Sleep(cooldown)
			w.take().die(errCrash)
			w.wantState(Failed)
		}
		time.Sleep(cooldown)
		f := w.take()
		f.becomeReady()
		w.acquire("").got(t, f)
	})
}

func TestCooldownEndsNoPermanentFailure(t *testing.T) {
	inBubble(t, threeRestarts, func(t *testing.T, w *world) {
		w.acquireNew("").die(fmt.Errorf("wrong version: %w", ErrPermanent))
		time.Sleep(time.Hour)
		w.acquire("").refused(t, protocol.Failed)
		if err := w.Refusal(t.Context(), ""); err != nil {
			t.Errorf("a final failure is not for Refusal to say: %v", err)
		}
		w.noneBorn()
	})
}

func TestRestartEndsCooldown(t *testing.T) {
	inBubble(t, threeRestarts, func(t *testing.T, w *world) {
		for range 4 {
			w.dieOnCall("")
		}
		w.refusedFor("", cooldown)
		result := w.async(func() error { return w.Restart(context.Background()) })
		f := w.take()
		f.becomeReady()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		f.die(errCrash)
		w.dieOnCall("") // the budget is whole again
		w.acquireNew("")
	})
}

// In a PerKey group, the deaths of instances count for their keys, and failed starts count for all keys together.
func TestCooldownOfKeys(t *testing.T) {
	o := threeRestarts
	o.Mode = PerKey
	inBubble(t, o, func(t *testing.T, w *world) {
		alive := w.acquireNew("alive")
		alive.release(nil)
		for range 4 {
			w.dieOnCall("dying")
		}
		w.refusedFor("dying", cooldown)
		w.acquireNew("other").release(nil)

		patient := w.acquire("a")
		for range 3 {
			w.take().die(errCrash)
			patient.waits(t)
		}
		f := w.take() // the third restart
		f.becomeReady()
		patient.got(t, f) // a success, which ends the row of failed starts
		fails := func(keys ...string) {
			t.Helper()
			var calls []*call
			for _, key := range keys {
				calls = append(calls, w.acquire(key))
			}
			for range 3 + len(keys) { // each running start may still fail when the third restart has
				w.take().die(errCrash)
			}
			for i, c := range calls {
				if e := c.refused(t, protocol.ChildExited); e.RetryAfter != cooldown {
					t.Errorf("%s: %v after %s", keys[i], e, e.RetryAfter)
				}
			}
		}
		fails("b", "c")
		for _, key := range []string{"b", "c", "d", ""} {
			w.refusedFor(key, cooldown)
		}
		w.acquire("alive").got(t, alive.fake)

		time.Sleep(cooldown)
		trial := w.acquire("d")
		f = w.take()
		w.refusedFor("e", cooldown) // one trial for all keys
		time.Sleep(time.Second)
		f.die(errCrash)
		trial.refused(t, protocol.ChildExited)
		w.refusedFor("e", cooldown)

		time.Sleep(cooldown)
		w.acquireNew("e").release(nil)
		w.acquireNew("b").release(nil)

		fails("f")
		w.refusedFor("i", cooldown)
		w.async(func() error { return w.Restart(context.Background()) })
		w.acquire("i").waits(t)
	})
}

// A caller can see an end, and ask for the next Refusal, before Serve returns.
func TestRefusalWaitsForTheEnd(t *testing.T) {
	o := threeRestarts
	o.Restart.MaxAttempts = 0
	o.Ended = func(err error) bool { return errors.Is(err, errCrash) }
	inBubble(t, o, func(t *testing.T, w *world) {
		c := w.acquireNew("")
		c.release(errCrash)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Refusal(ctx, ""); err != nil || w.elapsed() != time.Second {
			t.Errorf("%v at %s", err, w.elapsed())
		}
		result := w.async(func() error { return w.Refusal(t.Context(), "") })
		select {
		case err := <-result:
			t.Fatalf("before the end: %v", err)
		default:
		}
		c.die(errCrash)
		if err := <-result; protocol.KindOf(err) != protocol.NotReady {
			t.Errorf("after the end: %v", err)
		}
	})
}
