package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/protocol"
)

func TestCallsDuringDrain(t *testing.T) {
	inBubble(t, Options{MaxInFlight: 1}, func(t *testing.T, w *world) {
		f := w.started(1)[0]
		c, waiting := w.acquire(""), w.acquire("")
		result := w.async(func() error { return w.Stop(context.Background(), 30*time.Second) })
		w.wantState(Draining)
		waiting.refused(t, protocol.ShuttingDown)
		w.acquire("").refused(t, protocol.ShuttingDown)
		if err := w.Start(context.Background()); protocol.KindOf(err) != protocol.ShuttingDown {
			t.Errorf("Start: %v", err)
		}
		if err := w.Restart(context.Background()); protocol.KindOf(err) != protocol.ShuttingDown {
			t.Errorf("Restart: %v", err)
		}
		time.Sleep(10 * time.Second)
		if f.stopped.Load() {
			t.Error("stopped with a call in flight")
		}
		c.release(nil) // the end of the last call ends the drain
		if err := <-result; err != nil || w.elapsed() != 10*time.Second {
			t.Errorf("Stop: %v after %s", err, w.elapsed())
		}
	})
}

func TestStopDrainTimeout(t *testing.T) {
	for _, tt := range []struct {
		name          string
		first, second time.Duration // two concurrent Stops
		want          time.Duration
	}{
		{"no drain", 0, 0, 0},
		{"drain", 7 * time.Second, 7 * time.Second, 7 * time.Second},
		{"hurried", 30 * time.Second, time.Second, time.Second},
		{"never extended", time.Second, 30 * time.Second, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, w *world) {
				f := w.started(1)[0]
				w.acquire("").got(t, f)
				first := w.async(func() error { return w.Stop(context.Background(), tt.first) })
				second := w.async(func() error { return w.Stop(context.Background(), tt.second) })
				if err := errors.Join(<-first, <-second); err != nil || w.elapsed() != tt.want {
					t.Errorf("stopped after %s: %v, want %s", w.elapsed(), err, tt.want)
				}
			})
		})
	}
}

func TestStopReportsWhatDidNotStop(t *testing.T) {
	inBubble(t, Options{Mode: Fixed(2)}, func(t *testing.T, w *world) {
		fakes := w.started(2)
		fakes[1].linger = make(chan error)
		w.acquire("").got(t, fakes[0])
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := w.Stop(ctx, time.Hour)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"0", "1"`) {
			t.Errorf("Stop: %v", err)
		}
		synctest.Wait()
		if !fakes[0].stopped.Load() {
			t.Error("the drain goes on after the context's end")
		}
		close(fakes[1].linger)
	})
}

// matrix has the next state of a slot for each state and event. After each case the group is stopped, which must leave
// nothing running and start nothing.
var matrix = map[Mode]map[State]map[string]State{
	Shared: {
		Idle: {
			"call":    Spawning,
			"start":   Spawning,
			"restart": Idle,
			"release": Idle,
			"time":    Idle,
			"stop":    Shutdown,
		},
		Spawning: {
			"call":      Spawning,
			"start":     Spawning,
			"restart":   Spawning,
			"release":   Spawning,
			"time":      Spawning,
			"stop":      Shutdown,
			"ready":     Ready,
			"die":       Spawning,
			"permanent": Failed,
		},
		Ready: {
			"call":      Ready,
			"start":     Ready,
			"restart":   Spawning,
			"release":   Ready,
			"time":      Idle,
			"stop":      Shutdown,
			"ready":     Ready,
			"die":       Spawning,
			"permanent": Failed,
		},
		Restarting: {
			"call":    Restarting,
			"start":   Restarting,
			"restart": Spawning,
			"release": Restarting,
			"time":    Spawning,
			"stop":    Shutdown,
			"ready":   Restarting,
		},
		Draining: {
			"call":      Draining,
			"start":     Draining,
			"restart":   Draining,
			"release":   Draining,
			"time":      Idle,
			"stop":      Draining,
			"ready":     Draining,
			"die":       Idle,
			"permanent": Idle,
		},
		Failed: {
			"call":    Failed,
			"start":   Failed,
			"restart": Spawning,
			"release": Failed,
			"time":    Failed,
			"stop":    Shutdown,
			"ready":   Failed,
		},
		Shutdown: {
			"call":    Shutdown,
			"start":   Shutdown,
			"restart": Shutdown,
			"release": Shutdown,
			"time":    Shutdown,
			"stop":    Shutdown,
			"ready":   Shutdown,
		},
	},
	PerKey: {
		Idle: {"call": Spawning, "start": Idle, "restart": Idle, "release": gone, "time": Idle, "stop": Shutdown},
		Spawning: {
			"call":      Spawning,
			"start":     Spawning,
			"restart":   Spawning,
			"release":   Spawning,
			"time":      Spawning,
			"stop":      Shutdown,
			"ready":     Ready,
			"die":       Restarting,
			"permanent": Failed,
		},
		Ready: {
			"call":      Ready,
			"start":     Ready,
			"restart":   Spawning,
			"release":   gone,
			"time":      gone,
			"stop":      Shutdown,
			"ready":     Ready,
			"die":       Restarting,
			"permanent": Failed,
		},
		Restarting: {
			"call":    Restarting,
			"start":   Restarting,
			"restart": Spawning,
			"release": gone,
			"time":    Restarting,
			"stop":    Shutdown,
			"ready":   Restarting,
		},
		Draining: {
			"call":      Draining,
			"start":     Draining,
			"restart":   Draining,
			"release":   Draining,
			"time":      Spawning,
			"stop":      Draining,
			"ready":     Draining,
			"die":       Spawning,
			"permanent": Spawning,
		},
		Failed: {
			"call":    Failed,
			"start":   Failed,
			"restart": Spawning,
			"release": gone,
			"time":    Failed,
			"stop":    Shutdown,
			"ready":   Failed,
		},
		Shutdown: {
			"call":    Shutdown,
			"start":   Shutdown,
			"restart": Shutdown,
			"release": Shutdown,
			"time":    Shutdown,
			"stop":    Shutdown,
			"ready":   Shutdown,
		},
	},
}

// gone stands for a removed slot.
const gone State = ""

func TestStopInEveryState(t *testing.T) {
	o := Options{
		IdleTimeout: time.Minute,
		Restart:     Restart{MaxAttempts: -1, BaseBackoff: 30 * time.Second, MaxBackoff: 30 * time.Second},
	}
	for mode, states := range matrix {
		o.Mode = mode
		for state, events := range states {
			for event, want := range events {
				t.Run(fmt.Sprintf("%d/%s/%s", mode, state, event), func(t *testing.T) {
					inBubble(t, o, func(t *testing.T, w *world) {
						w.bring(state)
						w.apply(event)
						if got := w.stateOf("k"); got != want {
							t.Errorf("%s on %s: %q, want %q", event, state, got, want)
						}
						w.taken = len(w.born)
						result := w.async(func() error { return w.Stop(context.Background(), 0) })
						time.Sleep(time.Hour)
						if err := <-result; err != nil {
							t.Error(err)
						}
						w.noneBorn()
					})
				})
			}
		}
	}
}

func (w *world) stateOf(key string) State {
	synctest.Wait()
	for _, s := range w.Status() {
		if s.Key == key || w.o.Mode == Shared {
			return s.State
		}
	}
	return gone
}

// bring moves the slot of key "k" into a state, without calls in flight.
func (w *world) bring(s State) {
	w.t.Helper()
	switch s {
	case Idle:
		if w.o.Mode == PerKey { // the state of a slot that waits for room
			w.update(nil, func() { w.newPool("k", "k") })
		}
		return
	case Spawning:
		w.acquire("k")
		w.take()
		return
	}
	f := w.acquireReady()
	switch s {
	case Restarting: // the second restart has a delay
		f.die(errCrash)
		w.acquireReady().die(errCrash)
	case Failed:
		f.die(ErrPermanent)
	case Shutdown:
		if err := w.Stop(context.Background(), 0); err != nil {
			w.t.Fatal(err)
		}
	case Draining: // on the way to Idle or Spawning, with an instance that has not returned
		f.linger = make(chan error)
		time.AfterFunc(time.Minute, func() {
			select {
			case f.linger <- nil:
			default: // already dead
			}
		})
		w.update(nil, func() {
			then := map[Mode]State{Shared: Idle, PerKey: Spawning}[w.o.Mode]
			w.stop(w.st.slots[0], 0, then)
		})
	}
	if got := w.stateOf("k"); got != s {
		w.t.Fatalf("brought to %s, want %s", got, s)
	}
}

// acquireReady makes one call on a new instance and returns it.
func (w *world) acquireReady() *fake {
	w.t.Helper()
	c := w.acquire("k")
	f := w.take()
	f.becomeReady()
	c.got(w.t, f)
	c.release(nil)
	return f
}

// apply triggers an event on the slot of key "k". Instance events come from the latest instance, even if it is dead.
func (w *world) apply(event string) {
	background := context.Background()
	switch event {
	case "call":
		w.acquire("k")
	case "start":
		w.async(func() error { return w.Start(background) })
	case "restart":
		w.async(func() error { return w.Restart(background) })
	case "release":
		w.Release("k")
	case "stop":
		w.async(func() error { return w.Stop(background, 0) })
	case "time":
		time.Sleep(time.Minute)
	case "ready":
		w.born[len(w.born)-1].ready()
	case "die":
		w.born[len(w.born)-1].die(errCrash)
	case "permanent":
		w.born[len(w.born)-1].die(ErrPermanent)
	}
}
