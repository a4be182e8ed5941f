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

// threeFailures is a lazy group that gives up after three consecutive failures.
var threeFailures = Options{Lazy: true, Restart: Restart{MaxAttempts: 2, BaseBackoff: -1, Cooldown: cooldown}}

// dieOnCall starts an instance for a call and kills it during that call.
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
	inBubble(t, threeFailures, func(t *testing.T, w *world) {
		for range 3 {
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
			if c.look(); !errors.Is(c.err, errCrash) || protocol.KindOf(c.err) != protocol.ChildExited {
				t.Errorf("the caller of the trial: %v", c.err)
			}
		}
		w.refusedFor("", cooldown)

		time.Sleep(cooldown)
		c := w.acquireNew("")
		c.release(errApp) // any answer counts
		c.die(errCrash)
		w.dieOnCall("")
		w.dieOnCall("")
		w.refusedFor("", cooldown)
	})
}

// Only consecutive failures add up.
func TestAnswersClearFailures(t *testing.T) {
	inBubble(t, threeFailures, func(t *testing.T, w *world) {
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
	inBubble(t, threeFailures, func(t *testing.T, w *world) {
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
	inBubble(t, threeFailures, func(t *testing.T, w *world) {
		for range 3 {
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
	o := threeFailures
	o.Mode = PerKey
	inBubble(t, o, func(t *testing.T, w *world) {
		alive := w.acquireNew("alive")
		alive.release(nil)
		for range 3 {
			w.dieOnCall("dying")
		}
		w.refusedFor("dying", cooldown)
		w.acquireNew("other").release(nil)

		fails := func(key string) {
			t.Helper()
			c := w.acquire(key)
			w.take().die(errCrash)
			if c.look(); protocol.KindOf(c.err) != protocol.ChildExited {
				t.Fatalf("%s: %v", key, c.err)
			}
		}
		fails("a")
		fails("b")
		w.acquireNew("works").release(nil) // a success, which ends the row of failed starts
		fails("a")
		fails("b")
		fails("c")
		for _, key := range []string{"a", "b", "c", "d", ""} {
			w.refusedFor(key, cooldown)
		}
		w.acquire("alive").got(t, alive.fake)

		time.Sleep(cooldown)
		trial := w.acquire("d")
		f := w.take()
		w.refusedFor("e", cooldown) // one trial for all keys
		time.Sleep(time.Second)
		f.die(errCrash)
		trial.look()
		w.refusedFor("e", cooldown)

		time.Sleep(cooldown)
		w.acquireNew("e").release(nil)
		w.acquireNew("a").release(nil)

		for _, key := range []string{"f", "g", "h"} {
			fails(key)
		}
		w.refusedFor("i", cooldown)
		w.async(func() error { return w.Restart(context.Background()) })
		w.acquire("i").waits(t)
	})
}

// A caller can see an end, and ask for the next Refusal, before Serve returns.
func TestRefusalWaitsForTheEnd(t *testing.T) {
	o := threeFailures
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
