package supervisor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

// acquireNew acquires a key whose instance has to be started.
func (w *world) acquireNew(key string) *call {
	w.t.Helper()
	c := w.acquire(key)
	f := w.take()
	if f.key != key {
		w.t.Fatalf("instance for %q, want %q", f.key, key)
	}
	f.becomeReady()
	c.got(w.t, f)
	return c
}

func TestPerKeyIsolation(t *testing.T) {
	inBubble(t, Options{Mode: PerKey, Restart: Restart{MaxAttempts: 1}}, func(t *testing.T, w *world) {
		a, b := w.acquireNew("a"), w.acquireNew("b")
		w.acquire("a").got(t, a.fake)
		a.fake.die(errCrash)
		w.acquire("b").got(t, b.fake)
		time.Sleep(time.Minute)
		w.noneBorn() // a restarts with its next call
		w.acquireNew("a").die(errCrash)
		w.acquire("a").refused(t, protocol.Failed)
		w.acquire("b").got(t, b.fake)
		w.Release("a") // clears the failures of the key
		w.acquireNew("a")
	})
}

func TestMaxInstances(t *testing.T) {
	inBubble(t, Options{Mode: PerKey, MaxInstances: 2}, func(t *testing.T, w *world) {
		a, b := w.acquireNew("a"), w.acquireNew("b")
		w.acquire("c").refused(t, protocol.Overloaded)
		a.fake.linger = make(chan error)
		b.release(nil)
		time.Sleep(time.Nanosecond)
		a.release(nil)
		time.Sleep(time.Nanosecond)
		w.acquire("b").release(nil) // now a is the least recently used
		time.Sleep(time.Nanosecond)
		c := w.acquire("c")
		w.noneBorn() // a has not stopped yet, so c waits for room
		b = w.acquire("b")
		w.acquire("d").refused(t, protocol.Overloaded) // a key with a waiting call is not evicted
		b.release(nil)
		close(a.fake.linger)
		f := w.take()
		f.becomeReady()
		c.got(t, f)
		if !a.fake.stopped.Load() || b.fake.stopped.Load() {
			t.Errorf("stopped: a %v, b %v", a.fake.stopped.Load(), b.fake.stopped.Load())
		}
		// A key without an instance is evicted before an idle one that has been unused for longer.
		c.release(nil)
		time.Sleep(time.Nanosecond)
		c.fake.die(errCrash)
		w.acquireNew("d")
		w.acquire("b").got(t, b.fake)
	})
}

func TestKeptInstancesMakeNoRoom(t *testing.T) {
	keep := func(key string) bool { return key[0] == 'k' }
	inBubble(t, Options{Mode: PerKey, MaxInstances: 2, Keep: keep}, func(t *testing.T, w *world) {
		kept, other := w.acquireNew("k"), w.acquireNew("o")
		kept.release(nil)
		time.Sleep(time.Nanosecond)
		other.release(nil)
		p := w.acquire("p") // evicts o, although k has been unused for longer
		f := w.take()
		f.becomeReady()
		p.got(t, f)
		w.acquire("q").refused(t, protocol.Overloaded)
		if kept.fake.stopped.Load() || !other.fake.stopped.Load() {
			t.Errorf("stopped: k %v, o %v", kept.fake.stopped.Load(), other.fake.stopped.Load())
		}
	})
}

func TestRelease(t *testing.T) {
	inBubble(t, Options{Mode: PerKey, MaxInFlight: 1, DrainTimeout: 5 * time.Second}, func(t *testing.T, w *world) {
		w.Release("nobody")
		a := w.acquireNew("a")
		waiting := w.acquire("a")
		w.Release("a")
		waiting.refused(t, protocol.ShuttingDown)
		if err := w.Restart(t.Context(), "a"); protocol.KindOf(err) != protocol.ShuttingDown {
			t.Errorf("Restart of a released key: %v", err)
		}
		again := w.acquireNew("a") // at once, beside the old one
		if n := len(w.Status()); n != 2 {
			t.Errorf("%d slots", n)
		}
		time.Sleep(5*time.Second - 1)
		if a.fake.stopped.Load() {
			t.Error("stopped before the drain's end")
		}
		time.Sleep(time.Nanosecond)
		w.noneBorn()
		if s := w.Status(); !a.fake.stopped.Load() || len(s) != 1 || s[0].InFlight != 1 {
			t.Errorf("stopped %v, %+v", a.fake.stopped.Load(), s)
		}
		w.Release("a")
		again.release(nil)
		w.noneBorn()
		if n := len(w.Status()); n != 0 || !again.fake.stopped.Load() {
			t.Errorf("%d slots left, stopped %v", n, again.fake.stopped.Load())
		}
	})
}

func TestIdleKeysAreDropped(t *testing.T) {
	inBubble(t, Options{Mode: PerKey, IdleTimeout: time.Minute}, func(t *testing.T, w *world) {
		w.acquireNew("a").release(nil)
		b := w.acquireNew("b")
		time.Sleep(2 * time.Minute)
		w.noneBorn()
		if s := w.Status(); len(s) != 1 || s[0].Key != "b" {
			t.Errorf("%+v", s)
		}
		b.release(nil)
	})
}

func TestFixedLeastLoaded(t *testing.T) {
	inBubble(t, Options{Mode: Fixed(3), MaxInFlight: 2, MaxQueue: 1, Restart: Restart{MaxAttempts: 5}},
		func(t *testing.T, w *world) {
			all := w.started(3)
			got := map[*fake]int{}
			var calls []*call
			for i := range 6 {
				c := w.acquire("any key")
				got[c.fake]++
				calls = append(calls, c)
				if i == 2 && len(got) != 3 {
					t.Errorf("three calls on %d instances", len(got))
				}
			}
			for _, f := range all {
				if got[f] != 2 {
					t.Errorf("instance %s has %d calls", f.key, got[f])
				}
			}
			queue := []*call{w.acquire(""), w.acquire(""), w.acquire("")}
			w.acquire("").refused(t, protocol.Overloaded)
			calls[3].release(nil) // the first free slot serves the first call in the queue
			queue[0].got(t, calls[3].fake)
			calls[1].release(nil)
			queue[1].got(t, calls[1].fake)
			queue[2].waits(t)

			// The death of one slot's instance affects only its own calls.
			all[0].die(errCrash)
			f := w.take()
			f.becomeReady()
			queue[2].got(t, f)
		})
}

func TestFixedWorksWithOneSlot(t *testing.T) {
	inBubble(t, Options{Mode: Fixed(2)}, func(t *testing.T, w *world) {
		result := w.async(func() error { return w.Start(t.Context()) })
		broken, good := w.take(), w.take()
		broken.die(errCrash)
		good.becomeReady()
		if err := <-result; err != nil {
			t.Error(err)
		}
		for range 3 {
			w.acquire("").got(t, good)
		}
		good.die(errCrash)
		w.acquire("").refused(t, protocol.Failed)
	})
}

func TestFixedTakesTurns(t *testing.T) {
	inBubble(t, Options{Mode: Fixed(3)}, func(t *testing.T, w *world) {
		all := w.started(3)
		for _, f := range append(all, all...) {
			c := w.acquire("")
			c.got(t, f)
			c.release(nil)
		}
	})
}

// A call that all slots refuse gets a temporary refusal rather than a final one.
func TestFixedRefusal(t *testing.T) {
	o := Options{Mode: Fixed(2), Restart: Restart{MaxAttempts: 5, BaseBackoff: time.Hour, MaxBackoff: time.Hour}}
	inBubble(t, o, func(t *testing.T, w *world) {
		all := w.started(2)
		all[0].die(ErrPermanent)
		all[1].die(errCrash)
		w.take().die(errCrash)
		w.acquire("").refused(t, protocol.NotReady)
	})
}

// The start of another slot does not extend the wait of calls, and its failure does not end it.
func TestFixedWaitsForAnySlot(t *testing.T) {
	o := Options{
		Mode:         Fixed(3),
		Lazy:         true,
		MaxInFlight:  1,
		QueueTimeout: 5 * time.Second,
		Restart:      Restart{MaxAttempts: 5},
	}
	inBubble(t, o, func(t *testing.T, w *world) {
		calls := []*call{w.acquire(""), w.acquire("")}
		failing, slow := w.take(), w.take()
		failing.die(errCrash)
		slow.becomeReady()
		calls[0].got(t, slow)
		calls[1].waits(t)
		time.Sleep(3 * time.Second)
		other := w.take()
		calls = append(calls, w.acquire(""), w.acquire(""))
		other.becomeReady()
		calls[1].got(t, other)
		time.Sleep(4 * time.Second)
		last := w.take()
		last.becomeReady()
		calls[2].got(t, last)
		time.Sleep(time.Second - 1)
		calls[3].waits(t)
		time.Sleep(time.Nanosecond)
		calls[3].refused(t, protocol.Overloaded)
	})
}

func TestFixedLazyGrowsWithNeed(t *testing.T) {
	inBubble(t, Options{Mode: Fixed(3), Lazy: true, MaxInFlight: 2}, func(t *testing.T, w *world) {
		c := []*call{w.acquire(""), w.acquire("")}
		first := w.take()
		w.noneBorn() // one instance has room for both
		first.becomeReady()
		c[0].got(t, first)
		c[1].got(t, first)
		c = append(c, w.acquire(""))
		second := w.take()
		c[0].release(nil) // the first has room again before the second is ready
		c[2].got(t, first)
		second.becomeReady()
		w.acquire("").got(t, second)
	})
}

func TestFixedNeedsASlot(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Fixed(0) should panic")
		}
	}()
	Fixed(0)
}

// A session that ends during its start does not end the start, which may install the program: one start of the group
// continues, and its instance is stopped once it is ready.
func TestReleasedStartGoesOn(t *testing.T) {
	inBubble(t, Options{Mode: PerKey, MaxInstances: 4}, func(t *testing.T, w *world) {
		first := w.acquire("0")
		lingering := w.take()
		w.Release("0")
		first.refused(t, protocol.ShuttingDown)
		for _, key := range []string{"1", "2", "3"} {
			w.acquire(key)
			f := w.take()
			w.Release(key)
			synctest.Wait()
			if !f.stopped.Load() || lingering.stopped.Load() {
				t.Fatalf("%s: stopped %v, the start that goes on: stopped %v", key, f.stopped.Load(),
					lingering.stopped.Load())
			}
		}
		lingering.becomeReady()
		if s := w.Status(); !lingering.stopped.Load() || len(s) != 0 {
			t.Errorf("stopped %v, %+v", lingering.stopped.Load(), s)
		}
		failing := w.acquire("4")
		f := w.take()
		w.Release("4")
		failing.refused(t, protocol.ShuttingDown)
		f.die(errCrash)
		time.Sleep(time.Hour)
		w.noneBorn() // it is not needed any more
		if s := w.Status(); len(s) != 0 {
			t.Errorf("after a failed start: %+v", s)
		}
		w.acquire("5")
		w.take()
		w.Release("5") // ended by Stop
	})
}

// A start that a call has begun is the first start: its failure is final.
func TestStartAfterACall(t *testing.T) {
	inBubble(t, Options{Restart: Restart{MaxAttempts: 5}}, func(t *testing.T, w *world) {
		early := w.acquire("")
		f := w.take()
		started := w.async(func() error { return w.Start(t.Context()) })
		select {
		case err := <-started:
			t.Fatalf("Start returned before the instance was ready: %v", err)
		default:
		}
		f.die(errCrash)
		if err := <-started; err == nil {
			t.Error("Start of an instance that crashed")
		}
		early.refused(t, protocol.Failed)
		w.wantState(Failed)
	})
}
