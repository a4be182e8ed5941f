package unit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/discovery"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/runtime"
)

// away is an instance whose server is unreachable.
type away struct{ runtime.Instance }

func (away) Serve(context.Context, func()) error { return errors.New("cannot be reached") }
func (away) Handshake() *runtime.Handshake       { return nil }
func (away) Info() (i runtime.Info)              { return i }

// unreachable returns a unit of a server over HTTP. Its first restart has no delay; further scheduled restarts never
// come.
func unreachable(maxQueue int, start func(runtime.Spec, string) (runtime.Instance, error)) *Unit {
	m := &manifest.Manifest{Transport: manifest.Transport{Kind: manifest.KindHTTP, Protocol: manifest.ProtocolMCP}}
	return New(&Env{Log: slog.New(slog.DiscardHandler)}, Options{
		Candidate: discovery.Candidate{ID: "x", Manifest: m},
		Spec: runtime.Spec{
			ID:       "x",
			Manifest: m,
			Options: manifest.Options{
				CallTimeout: time.Minute,
				MaxInFlight: 8,
				MaxQueue:    maxQueue,
				Restart: manifest.RestartOptions{
					MaxAttempts: -1,
					BaseBackoff: 10_000 * time.Hour, // of which a random part is waited
					MaxBackoff:  10_000 * time.Hour,
				},
			},
		},
		Start: start,
	})
}

// An unreachable server gets at most one connection per second, however many calls come and when.
func TestManyCallsTryAServerAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var connections atomic.Int64
		u := unreachable(8, func(runtime.Spec, string) (runtime.Instance, error) {
			connections.Add(1)
			return away{}, nil
		})
		defer func() { _ = u.Stop(context.Background(), 0) }()
		if u.Start(t.Context()) == nil || !u.StartsOnCall() {
			t.Fatal("it starts")
		}
		synctest.Wait() // the first restart has no delay
		connections.Store(0)
		var calls sync.WaitGroup
		for range 1000 {
			calls.Go(func() { u.TryAgain(t.Context()) })
		}
		calls.Wait()
		if n := connections.Swap(0); n != 1 {
			t.Errorf("1000 calls at once: %d connections", n)
		}
		const span = time.Minute
		for began := time.Now(); time.Since(began) < span; {
			u.TryAgain(t.Context())
		}
		if n := connections.Load(); n > int64(span/tryPause)+1 {
			t.Errorf("%d connections in %v of one call after the other", n, span)
		}
		time.Sleep(span)
		began := time.Now()
		if u.TryAgain(t.Context()); time.Since(began) > 0 {
			t.Errorf("a call long after the latest failure has waited for %v", time.Since(began))
		}
	})
}

// ready is an instance whose server answers.
type ready struct{ away }

func (ready) Serve(ctx context.Context, onReady func()) error {
	onReady()
	<-ctx.Done()
	return ctx.Err()
}

// dialing is an instance that waits for its server until the channel is closed, and then finds the server
// unreachable.
type dialing struct {
	away
	refused chan struct{}
}

func (d dialing) Serve(context.Context, func()) error {
	<-d.refused
	return errors.New("cannot be reached")
}

// dialingUnit returns a unit whose first start has failed, and whose restart dials until refused is closed. The start
// after that succeeds.
func dialingUnit(t *testing.T, maxQueue int) (u *Unit, refused chan struct{}) {
	starts := make(chan runtime.Instance, 3)
	u = unreachable(maxQueue, func(runtime.Spec, string) (runtime.Instance, error) { return <-starts, nil })
	refused = make(chan struct{})
	starts <- away{}
	starts <- dialing{refused: refused} // the first restart has no delay
	starts <- ready{}
	if u.Start(t.Context()) == nil {
		t.Fatal("it starts")
	}
	synctest.Wait()
	return u, refused
}

// A call during a start that began before the server was back does not fail with that start, but waits for the next.
func TestCallOutlivesTheStartThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, refused := dialingUnit(t, 8)
		defer func() { _ = u.Stop(context.Background(), 0) }()
		got := make(chan bool, 1)
		go func() { got <- u.TryAgain(t.Context()) }()
		synctest.Wait()
		close(refused)
		if !<-got {
			t.Error("the call shares the failure of a start that began before it")
		}
	})
}

// A call that finds the queue of a start full fails at once; it does not try again and again until there is room.
func TestCallFailsWhereTheQueueOfAStartIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, refused := dialingUnit(t, 1)
		defer func() { _ = u.Stop(context.Background(), 0) }()
		waited := make(chan error, 1)
		go func() { waited <- u.Try(t.Context()) }()
		synctest.Wait()
		if u.TryAgain(t.Context()) {
			t.Error("there is an instance")
		}
		close(refused)
		<-waited
	})
}

// The two instances of a unit share one bound on the memory of held messages.
func TestInstancesShareTheBoundOfWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan *runtime.Held, 2)
		u := unreachable(8, func(s runtime.Spec, _ string) (runtime.Instance, error) {
			held <- s.Held
			return away{}, nil
		})
		defer func() { _ = u.Stop(context.Background(), 0) }()
		_ = u.Start(t.Context())
		if first, second := <-held, <-held; first == nil || first != second {
			t.Errorf("%p and %p", first, second)
		}
	})
}
