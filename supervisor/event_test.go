package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventsTellTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Restart: Restart{MaxAttempts: 1}})
		f := w.started(1)[0]
		w.openBreaker(f)
		f.die(errCrash)
		f = w.take()
		time.Sleep(time.Second)
		f.becomeReady()
		f.die(errApp)
		if err := w.Stop(context.Background(), 0); err != nil { // returns after the last event
			t.Fatal(err)
		}
		var got []string
		for _, e := range w.events {
			if e.Group != "weather" || e.Key != "" || e.MaxAttempts != 1 {
				t.Errorf("%+v", e)
			}
			line := fmt.Sprintf("%s %s", e.Time.Sub(w.epoch), e.State)
			if e.Kind == BreakerChanged {
				line += " breaker " + string(e.Breaker)
			}
			if !e.Next.IsZero() {
				line += fmt.Sprintf(" next %s", e.Next.Sub(w.epoch))
			}
			if e.Err != nil {
				line += fmt.Sprintf(" attempt %d: %v", e.Attempt, e.Err)
			}
			got = append(got, line)
		}
		want := []string{
			"0s spawning",
			"0s ready",
			"0s ready breaker open next 10s",
			"0s ready breaker closed",
			"0s restarting next 0s attempt 1: " + errCrash.Error(),
			"0s spawning",
			"1s ready",
			"1s failed attempt 1: " + errApp.Error(),
			"1s shutdown",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// Event.Asked marks a failure that Start or Restart also returns as an error.
func TestEventsTellWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{}) // no restarts allowed
		w.started(1)[0].die(errCrash)
		result := w.async(func() error { return w.Restart(context.Background()) })
		w.take().die(errApp)
		if err := <-result; !errors.Is(err, errApp) {
			t.Errorf("Restart: %v", err)
		}
		if err := w.Stop(context.Background(), 0); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range w.events {
			if e.State == Failed {
				got = append(got, fmt.Sprint(e.Err, " asked ", e.Asked))
			}
		}
		if want := []string{
			errCrash.Error() + " asked false",
			errApp.Error() + " asked true",
		}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// OnEvent may call the group and may be slow: only Stop waits for it, and dropped events are counted.
func TestEventHookLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, lost, seen := make(chan struct{}, 1), 0, 0
		gate <- struct{}{}
		var g *Group[endsOnce]
		g = NewGroup(func(string) (endsOnce, error) { return endsOnce{true}, nil }, Options{
			Restart: Restart{MaxAttempts: -1},
			OnEvent: func(e Event) {
				gate <- struct{}{}
				<-gate
				g.Status()
				seen++
				lost += e.Lost
			}})
		if err := g.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Hour) // in a crash loop
		<-gate
		time.Sleep(3 * time.Hour)
		gate <- struct{}{}
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := g.Stop(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stop did not wait for the hook: %v", err)
		}
		<-gate
		if err := g.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		// Each run is Spawning, Ready, Restarting; the last event is Shutdown.
		if total := 3*(g.Status()[0].Restarts+1) + 1; seen+lost != total || lost == 0 {
			t.Errorf("the hook saw %d events and was told of %d lost ones, want %d in all", seen, lost, total)
		}
	})
}
