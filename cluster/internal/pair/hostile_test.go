package pair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

const hostileRun = "aaaaaaaaaa"

var hostile = wire.Address{Node: "hostile", Run: hostileRun}

// alone starts a run whose messages reach nobody. With a nil node it expects no calls.
func alone(t *testing.T, of Node) (p *Pairs, sent func() []message, stop func()) {
	var mu sync.Mutex
	var list []message
	p = New(Options{
		Self:    wire.Address{Node: "one", Run: wire.NewRun()},
		Unsent:  errUnsent,
		Node:    of,
		Log:     slog.New(slog.DiscardHandler),
		MaxBody: func(wire.Address) int64 { return 16 << 20 },
		Batches: func(wire.Address) bool { return true },
		Sender: recorder{64 << 10, func(m message) {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, m)
		}},
	})
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); p.Run(ctx) }()
	sent = func() []message {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return list
	}
	return p, sent, func() {
		end()
		<-ran
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// echoing returns a node whose calls return their bodies.
func echoing() *node {
	return &node{
		executed: make(map[string]int),
		work: func(_ context.Context, body []byte, _ protocol.Peer) ([]byte, error) {
			return bytes.Clone(body), nil
		},
	}
}

// of returns the pair with the hostile run, locked until unlock.
func of(p *Pairs) (r *peer, unlock func()) {
	r = p.peer(hostile)
	r.mu.Lock()
	return r, r.mu.Unlock
}

type message struct {
	head *wire.Head
	body []byte
}

// recorder is the connection of a run that nobody hears.
type recorder struct {
	max  int
	note func(message)
}

func (r recorder) MaxPayload() int { return r.max }

func (r recorder) Send(_ wire.Address, _ string, m []byte) error {
	for one := range wire.Messages(bytes.Clone(m)) {
		h, body, err := wire.Decode(one)
		if err != nil {
			return err
		}
		r.note(message{h, body})
	}
	return nil
}

func pulse(low uint64, open ...uint64) *wire.Head {
	return &wire.Head{Kind: wire.Pulse, Run: hostileRun, Pulses: wire.Pulses{Low: low, Open: open}}
}

func begin(kind string, n, body uint64, size int64) *wire.Head {
	return &wire.Head{Kind: kind, Run: hostileRun, N: n, ID: n, Chunk: wire.Chunk{Body: body, Size: size}}
}

// The set of individually refused numbers is bounded, whatever numbers a front names, and a number that was
// reported as never received does not run.
func TestRefusedNumbersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := echoing()
		p, sent, stop := alone(t, there)
		defer stop()
		p.Receive("hostile", pulse(0, math.MaxUint64), nil)
		for from := uint64(0); from < 2*maxRefused; from += 1000 {
			open := make([]uint64, 1000)
			for i := range open {
				open[i] = from + uint64(i) + 2
			}
			p.Receive("hostile", pulse(0, open...), nil)
		}
		r, unlock := of(p)
		if refused := len(r.in.refused); refused > maxRefused {
			t.Errorf("%d numbers are refused one by one", refused)
		}
		unlock()
		for _, n := range []uint64{math.MaxUint64, 2, 1000, maxRefused} {
			p.Receive("hostile", &wire.Head{Kind: wire.Call, Run: hostileRun, N: n}, []byte("refused"))
		}
		sent()
		if there.executed["refused"] != 0 {
			t.Error("a call ran that was reported as never received")
		}
	})
}

// The number of unconfirmed results is bounded. Further calls are refused without an outcome.
func TestUnconfirmedCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, sent, stop := alone(t, echoing())
		defer stop()
		const calls = 70_000
		for n := range uint64(calls) {
			p.Receive("hostile", &wire.Head{Kind: wire.Call, Run: hostileRun, N: n + 1}, nil)
			if n%512 == 0 {
				synctest.Wait()
			}
		}
		refused := 0
		for _, m := range sent() {
			if m.head.Kind == wire.Result && m.head.Error {
				refused++
				if e, _ := errors.AsType[*protocol.Error](readError(m.body)); e.Kind != protocol.Overloaded ||
					e.Outcome != "" {
					t.Fatal(e)
				}
			}
		}
		r, unlock := of(p)
		defer unlock()
		if kept := len(r.in.calls); kept > 1<<16 || kept+refused != calls {
			t.Errorf("%d calls are kept, %d were refused", kept, refused)
		}
	})
}

// The bytes of an extension's events are bounded while the caller is slow.
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, stop := alone(t, nil)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 64 {
			calls.Go(func() {
				_, _ = p.Call(ctx, hostile, &wire.Head{}, nil, slow{func() { <-ctx.Done() }})
			})
		}
		synctest.Wait()
		params := make([]byte, 60<<10)
		for n := range uint64(64) {
			for range 500 {
				p.Receive("hostile",
					&wire.Head{Kind: wire.Tell, Run: hostileRun, N: n + 1, Request: wire.Request{Method: "m"}}, params)
			}
		}
		total := 0
		r, unlock := of(p)
		for _, c := range r.out.open {
			bytes := 0
			for _, e := range c.events {
				bytes += len(e.params)
			}
			if total += bytes; bytes > 4<<20 {
				t.Errorf("%d bytes wait for one caller", bytes)
			}
		}
		unlock()
		if total > 64<<20 {
			t.Errorf("%d bytes wait for callers", total)
		}
		cancel()
		calls.Wait()
		if waiting := p.waiting.used.Load(); waiting != 0 {
			t.Errorf("%d bytes wait in the end", waiting)
		}
	})
}

// A question to a session ends when the asking run is gone.
func TestQuestionEndsWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &asking{ended: make(chan error, 1)}
		p, _, stop := alone(t, asked)
		defer stop()
		p.peer(hostile)
		p.Receive("hostile", &wire.Head{
			Kind:    wire.Ask,
			Run:     hostileRun,
			ID:      1,
			Request: wire.Request{Method: "m", Session: &wire.Session{ID: "s"}},
		}, nil)
		synctest.Wait()
		p.Gone(hostile)
		synctest.Wait()
		select {
		case err := <-asked.ended:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		default:
			t.Error("the question goes on")
		}
	})
}

// asking is a node that records the questions to its sessions.
type asking struct {
	node
	ended chan error
}

func (a *asking) Incoming(ctx context.Context, _ wire.Address, _ *wire.Head, _ []byte, _ bool) ([]byte, error) {
	<-ctx.Done()
	a.ended <- ctx.Err()
	return nil, ctx.Err()
}

// The bytes of incoming bodies are bounded. A call beyond the bound is refused without an outcome, and does
// not run if its body arrives anyway.
func TestArrivingBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := echoing()
		p, sent, stop := alone(t, there)
		defer stop()
		p.Receive("hostile", pulse(0), nil)
		for n := range uint64(40) {
			p.Receive("hostile", begin(wire.Call, n+1, n+1, 16<<20), nil)
		}
		var bytes int64
		r, unlock := of(p)
		arriving := len(r.receiving)
		for _, b := range r.receiving {
			bytes += b.head.Size
		}
		unlock()
		if bytes > 256<<20 {
			t.Errorf("%d bytes may arrive", bytes)
		}
		refused := make(map[uint64]bool)
		for _, m := range sent() {
			if m.head.Kind == wire.Result {
				refused[m.head.N] = true
				if e, _ := errors.AsType[*protocol.Error](readError(m.body)); e.Kind != protocol.Overloaded ||
					e.Outcome != "" {
					t.Error(e)
				}
			}
		}
		if len(refused) != 40-arriving {
			t.Errorf("%d calls are refused, %d bodies arrive", len(refused), arriving)
		}
		time.Sleep(3 * time.Second) // the other bodies are given up
		for n := range refused {
			p.Receive("hostile", &wire.Head{Kind: wire.Call, Run: hostileRun, N: n}, []byte("late"))
		}
		sent()
		if there.executed["late"] != 0 {
			t.Error("a call ran that was refused")
		}
		if arriving := p.arriving.used.Load(); arriving != 0 {
			t.Errorf("%d bytes arrive in the end", arriving)
		}
	})
}

// The bytes of outgoing bodies that nobody accepts are bounded. A call beyond the bound is not sent.
func TestLeavingBodiesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, stop := alone(t, nil)
		defer stop()
		body := make([]byte, 16<<20)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 40 {
			calls.Go(func() {
				_, err := p.Call(ctx, hostile, &wire.Head{}, body, nil)
				if e, _ := errors.AsType[*protocol.Error](err); e.Kind == protocol.Overloaded && e.Outcome == "" {
					mu.Lock()
					defer mu.Unlock()
					refused++
				}
			})
		}
		synctest.Wait()
		if open := p.InFlight(hostile); open > 16 || open+refused != 40 {
			t.Errorf("%d calls are sent, %d refused", open, refused)
		}
		cancel()
		calls.Wait()
		synctest.Wait() // drops their bodies
		if leaving := p.departing.used.Load(); leaving != 0 {
			t.Errorf("%d bytes leave in the end", leaving)
		}
	})
}

// The bytes of kept answers and results are bounded. A question whose answer was dropped is not asked again;
// its answer is lost.
func TestKeptAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := &answering{}
		p, sent, stop := alone(t, asked)
		defer stop()
		p.peer(hostile)
		ask := func(id uint64) {
			p.Receive("hostile",
				&wire.Head{
					Kind:    wire.Ask,
					Run:     hostileRun,
					ID:      id,
					Request: wire.Request{Method: "m", Session: &wire.Session{ID: "s"}},
				}, nil)
			synctest.Wait()
		}
		for id := range uint64(100) {
			ask(id + 1)
		}
		bytes := 0
		r, unlock := of(p)
		for _, a := range r.asks.theirs {
			bytes += len(a.result)
		}
		unlock()
		if bytes > maxKept+1<<20 {
			t.Errorf("%d bytes of answers are kept", bytes)
		}
		before := len(sent())
		ask(100)
		again := sent()[before:]
		if len(again) != 1 || !again[0].head.Error {
			t.Fatalf("%d messages", len(again))
		}
		if e, _ := errors.AsType[*protocol.Error](readError(again[0].body)); e.Outcome != outcomeUnknown {
			t.Error(e)
		}
		if asked.times != 100 {
			t.Errorf("asked %d times", asked.times)
		}
		p.Gone(hostile)
		if kept := p.kept.used.Load(); kept != 0 {
			t.Errorf("%d bytes are kept of a run that has gone", kept)
		}
	})
}

// answering is a node whose sessions give long answers.
type answering struct {
	node
	times int
}

func (a *answering) Incoming(context.Context, wire.Address, *wire.Head, []byte, bool) ([]byte, error) {
	a.times++
	return make([]byte, 1<<20), nil
}

// Results of calls that were never made are ignored, and other results are recorded once.
func TestUnknownResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, stop := alone(t, nil)
		defer stop()
		done := func() int {
			r, unlock := of(p)
			defer unlock()
			return len(r.out.done)
		}
		done() // the run is known now
		p.numbers.Store(10)
		for n := range uint64(1000) {
			p.Receive("hostile", &wire.Head{Kind: wire.Result, Run: hostileRun, N: n % 100}, nil)
		}
		if noted := done(); noted != 10 {
			t.Errorf("%d results are noted", noted)
		}
		p.numbers.Store(math.MaxUint32)
		for n := range uint64(2 * maxDone) {
			p.Receive("hostile", &wire.Head{Kind: wire.Result, Run: hostileRun, N: n + 1}, nil)
		}
		if noted := done(); noted > maxDone {
			t.Errorf("%d results are noted", noted)
		}
	})
}

// A call with too long a head fails at once and says so.
func TestLongHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, stop := alone(t, nil)
		defer stop()
		caps := json.RawMessage(fmt.Sprintf("%q", bytes.Repeat([]byte("x"), wire.MaxHead)))
		_, err := p.Call(t.Context(), hostile, &wire.Head{Request: wire.Request{Session: &wire.Session{Caps: caps}}},
			nil, nil)
		if e, _ := errors.AsType[*protocol.Error](err); e == nil || e.Kind != protocol.LineTooLong || e.Outcome != "" ||
			errors.Is(err, errUnsent) {
			t.Error(err)
		}
	})
}

// A call that arrives while its pair is being dropped does not run there, since the next pair knows nothing
// of it.
func TestCallForADroppedPair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := echoing()
		p, sent, stop := alone(t, there)
		defer stop()
		p.Receive("hostile", pulse(0), nil)
		r := p.peer(hostile)
		p.Gone(hostile)
		r.handle(&wire.Head{Kind: wire.Call, Run: hostileRun, N: 1}, []byte("late"))
		sent()
		if there.executed["late"] != 0 {
			t.Error("the call ran")
		}
	})
}
