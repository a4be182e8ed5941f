package pair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// A node that restarts repeatedly is heard each time. Of its former runs, only the used numbers are kept.
func TestManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, 1)
		owner, there, stopOwner := n.start("owner",
			func(_ context.Context, body []byte, _ protocol.Peer) ([]byte, error) { return body, nil })
		var last wire.Address
		for range 3 * maxRuns {
			front, of, stop := n.start("front", nil)
			if result, err := front.Call(t.Context(), there.self, &wire.Head{}, []byte("x"), nil); err != nil ||
				string(result) != "x" {
				t.Fatalf("%s, %v", result, err)
			}
			stop()
			last = of.self
			owner.Gone(last)
		}
		if runs := len(owner.all()); runs != 0 {
			t.Errorf("%d runs are known in the end", runs)
		}
		owner.Receive("front", &wire.Head{Kind: wire.Call, Run: last.Run, N: 1}, []byte("late"))
		time.Sleep(time.Second)
		if there.executed["late"] != 0 {
			t.Error("a call of a run that has gone ran late")
		}
		stopOwner()
		n.work.Wait()
	})
}

// A front that was considered gone comes back with open calls. None of them is reported as unsent, as they
// may have run.
func TestFrontComesBack(t *testing.T) {
	for _, known := range []bool{false, true} { // whether the owner also has a call open at the front
		synctest.Test(t, func(t *testing.T) {
			n := newNet(t, 1)
			work := func(ctx context.Context, body []byte, _ protocol.Peer) ([]byte, error) {
				select {
				case <-time.After(time.Second):
					return body, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			owner, there, stopOwner := n.start("owner", work)
			front, of, stopFront := n.start("front",
				func(ctx context.Context, _ []byte, _ protocol.Peer) ([]byte, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})
			var calls sync.WaitGroup
			if known {
				calls.Go(func() { _, _ = owner.Call(t.Context(), of.self, &wire.Head{}, []byte("back"), nil) })
			}
			outcome := func(body string) {
				_, err := front.Call(t.Context(), there.self, &wire.Head{}, []byte(body), nil)
				if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.NodeLost ||
					e.Outcome != "unknown" {
					t.Errorf("%s: %v", body, err)
				}
			}
			calls.Go(func() { outcome("finished") })
			time.Sleep(900 * time.Millisecond)
			calls.Go(func() { outcome("running") })
			time.Sleep(50 * time.Millisecond)
			n.mu.Lock()
			n.cut[of.self] = true
			n.mu.Unlock()
			time.Sleep(500 * time.Millisecond)
			owner.Gone(of.self)
			time.Sleep(3 * time.Second)
			n.mu.Lock()
			delete(n.cut, of.self)
			n.mu.Unlock()
			calls.Wait()
			for _, body := range []string{"finished", "running"} {
				if there.executed[body] != 1 {
					t.Errorf("%s ran %d times", body, there.executed[body])
				}
			}
			stopFront()
			stopOwner()
			n.work.Wait()
		})
	}
}

// A request that is queued when its caller gives up is answered, so that it no longer counts.
func TestUnservedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, 1)
		_, there, stopOwner := n.start("owner",
			func(ctx context.Context, _ []byte, client protocol.Peer) ([]byte, error) {
				_ = client.Notify(ctx, "first", nil)
				_, _ = client.Call(ctx, "question", nil)
				return nil, ctx.Err()
			})
		front, _, stopFront := n.start("front", nil)
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = front.Call(ctx, there.self, &wire.Head{}, nil, slow{func() {
			time.Sleep(time.Second) // the question is queued behind it
			cancel()
		}})
		time.Sleep(2 * keepAnswer)
		r := front.peer(there.self)
		r.mu.Lock()
		if kept := len(r.asks.theirs); kept != 0 {
			t.Errorf("%d requests are kept", kept)
		}
		r.mu.Unlock()
		stopFront()
		stopOwner()
		n.work.Wait()
	})
}

// slow takes time for a notification.
type slow struct{ notified func() }

func (slow) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }
func (s slow) Notify(context.Context, string, json.RawMessage) error {
	s.notified()
	return nil
}

// A peer may send anything without a panic, and without ending a call of another run.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"k":"call","run":"aaaaaaaaaa","n":1,"body":7,"size":9}`+"\n"),
		[]byte(`{"k":"part","run":"aaaaaaaaaa","body":7,"at":0}`+"\n123456789"))
	f.Add([]byte(`{"k":"pulse","run":"aaaaaaaaaa","low":18446744073709551615,"open":[0,1],"done":[1]}`+"\n"),
		[]byte(`{"k":"result","run":"aaaaaaaaaa","n":0}`+"\n{}"))
	f.Add([]byte(`{"k":"ask","run":"aaaaaaaaaa","id":1,"session":{"id":"s"}}`+"\n1"),
		[]byte(`{"k":"answer","run":"aaaaaaaaaa","id":1,"error":true}`+"\nx"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		n := newNet(t, 1)
		p, _, stop := n.start("owner",
			func(_ context.Context, body []byte, _ protocol.Peer) ([]byte, error) { return bytes.Clone(body), nil })
		for _, m := range [][]byte{first, second, first} {
			if h, body, err := wire.Decode(m); err == nil {
				p.Receive("hostile", h, body)
			}
		}
		stop()
		n.work.Wait()
		if kept := p.kept.used.Load(); kept < 0 || kept > 1<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
	})
}

// A call that is made while its pair is being dropped uses a new pair, and has an outcome.
func TestCallOfADroppedPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet(t, 1)
		_, there, stopOwner := n.start("owner",
			func(_ context.Context, body []byte, _ protocol.Peer) ([]byte, error) { return body, nil })
		front, _, stopFront := n.start("front", nil)
		dropped := front.peer(there.self)
		if !dropped.out.gone() || dropped.out.openCall(false) != nil {
			t.Error("a pair that was dropped takes a call")
		}
		front.forget(dropped)
		if result, err := front.Call(t.Context(), there.self, &wire.Head{}, []byte("x"), nil); err != nil ||
			string(result) != "x" {
			t.Errorf("%s, %v", result, err)
		}
		stopFront()
		stopOwner()
		n.work.Wait()
	})
}

// wireOf carries messages to one run in order, at intervals.
type wireOf struct {
	self wire.Address
	to   *Pairs
	each time.Duration
	way  chan []byte
}

func (w *wireOf) MaxPayload() int { return 1 << 20 }

func (w *wireOf) Send(_ wire.Address, _ string, m []byte) error {
	w.way <- bytes.Clone(m)
	return nil
}

func (w *wireOf) carry(ctx context.Context) {
	for {
		select {
		case m := <-w.way:
			time.Sleep(w.each) // the clock of the bubble
			for one := range wire.Messages(m) {
				if h, body, err := wire.Decode(one); err == nil {
					w.to.Receive(w.self.Node, h, body)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// Results that are too large to be kept together are not lost while they are being sent.
func TestLongResultsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 15 << 20
		there := &wireOf{
			self: wire.Address{Node: "owner", Run: wire.NewRun()},
			each: 10 * time.Millisecond,
			way:  make(chan []byte, 1<<16),
		}
		here := &wireOf{self: wire.Address{Node: "front", Run: wire.NewRun()}, way: make(chan []byte, 1<<16)}
		pairs := func(w *wireOf) *Pairs {
			return New(Options{
				Self:    w.self,
				Sender:  w,
				Unsent:  errUnsent,
				MaxBody: func(wire.Address) int64 { return 16 << 20 },
				Batches: func(wire.Address) bool { return true },
				Node: &node{
					self:     w.self,
					executed: make(map[string]int),
					work: func(context.Context, []byte, protocol.Peer) ([]byte, error) {
						return make([]byte, long), nil
					},
				},
			})
		}
		owner, front := pairs(there), pairs(here)
		there.to, here.to = front, owner
		ctx, cancel := context.WithCancel(t.Context())
		var work, calls sync.WaitGroup
		work.Go(func() { there.carry(ctx) })
		work.Go(func() { here.carry(ctx) })
		work.Go(func() { owner.Run(ctx) })
		work.Go(func() { front.Run(ctx) })
		for range maxKept/long + 1 {
			calls.Go(func() {
				result, err := front.Call(t.Context(), there.self, &wire.Head{}, nil, nil)
				if err != nil || len(result) != long {
					t.Errorf("%d bytes, %v", len(result), err)
				}
			})
		}
		calls.Wait()
		cancel()
		for _, p := range []*Pairs{front, owner} {
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		work.Wait()
	})
}
