package pair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

var errUnsent = errors.New("unsent")

// net connects runs. It may lose, duplicate, delay and reorder messages.
type net struct {
	t    *testing.T
	rand *rand.Rand
	max  int // payload

	loss, double, late float64 // probabilities

	mu   sync.Mutex
	runs map[wire.Address]*Pairs // present runs
	cut  map[wire.Address]bool   // runs that neither send nor receive
	off  map[wire.Address]bool   // runs that know that they are disconnected
	work sync.WaitGroup
}

func newNet(t *testing.T, seed uint64) *net {
	return &net{
		t:    t,
		rand: rand.New(rand.NewPCG(seed, 1)),
		max:  64 << 10,
		runs: make(map[wire.Address]*Pairs),
		cut:  make(map[wire.Address]bool),
		off:  make(map[wire.Address]bool),
	}
}

// end is the connection of one run.
type end struct {
	net  *net
	self wire.Address
}

func (e end) MaxPayload() int { return e.net.max }

func (e end) Send(to wire.Address, notTaken string, m []byte) error {
	n := e.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off[e.self] || len(m) > n.max {
		return errUnsent
	}
	if n.cut[e.self] {
		return nil
	}
	copies := 1
	switch chance := n.rand.Float64(); {
	case chance < n.loss:
		copies = 0
	case chance < n.loss+n.double:
		copies = 2
	}
	m = bytes.Clone(m)
	for range copies {
		delay := 50 * time.Microsecond
		if n.rand.Float64() < n.late {
			delay = time.Duration(n.rand.Int64N(int64(3 * time.Second)))
		}
		n.work.Go(func() {
			time.Sleep(delay) // the clock of the bubble
			n.mu.Lock()
			p, there := n.runs[to], !n.cut[to]
			back := n.runs[e.self]
			n.mu.Unlock()
			switch {
			case p != nil && there:
				for one := range wire.Messages(m) {
					h, body, err := wire.Decode(one)
					if err != nil {
						n.t.Errorf("a message that cannot be read: %v", err)
						return
					}
					p.Receive(e.self.Node, h, body)
				}
			// a server replies at most once per message
			case p == nil && notTaken != "" && back != nil && copies == 1:
				back.NotTaken(notTaken)
			}
		})
	}
	return nil
}

// node runs calls and records them.
type node struct {
	self wire.Address

	mu       sync.Mutex
	executed map[string]int
	work     func(ctx context.Context, body []byte, client protocol.Peer) ([]byte, error)
}

func (n *node) Run(ctx context.Context, _ wire.Address, _ *wire.Head, body []byte, client protocol.Peer,
) ([]byte, error) {
	n.mu.Lock()
	n.executed[string(body[:min(len(body), 32)])]++
	n.mu.Unlock()
	return n.work(ctx, body, client)
}

func (n *node) Incoming(_ context.Context, _ wire.Address, h *wire.Head, body []byte, _ bool) ([]byte, error) {
	return []byte(fmt.Sprintf(`{"session":%q,"got":%s}`, h.Session.ID, body)), nil
}

func (n *node) Ended(wire.Address, string) {}

// start starts a run of a node.
func (n *net) start(name string, work func(ctx context.Context, body []byte, client protocol.Peer) ([]byte, error),
) (*Pairs, *node, func()) {
	self := wire.Address{Node: name, Run: wire.NewRun()}
	one := &node{self: self, executed: make(map[string]int), work: work}
	p := New(Options{
		Self:    self,
		Sender:  end{n, self},
		Unsent:  errUnsent,
		Node:    one,
		MaxBody: func(wire.Address) int64 { return 16 << 20 },
		Batches: func(wire.Address) bool { return true },
		Log:     slog.New(slog.DiscardHandler),
	})
	n.mu.Lock()
	n.runs[self] = p
	n.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})
	go func() { defer close(ran); p.Run(ctx) }()
	return p, one, func() {
		stop()
		<-ran
		closing, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := p.Close(closing); err != nil {
			n.t.Error(err)
		}
		n.mu.Lock()
		delete(n.runs, self)
		n.mu.Unlock()
	}
}

// A call runs at most once, a call reported as unsent never runs, and a result comes from the call's own
// execution, even if messages are lost, duplicated and delayed.
func TestOneOutcome(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n := newNet(t, uint64(seed))
			n.loss, n.double, n.late = 0.1*n.rand.Float64(), 0.1*n.rand.Float64(), 0.1*n.rand.Float64()
			owner, there, stopOwner := n.start("owner",
				func(ctx context.Context, body []byte, client protocol.Peer) ([]byte, error) {
					n.mu.Lock()
					wait := time.Duration(n.rand.Int64N(int64(time.Second)))
					n.mu.Unlock()
					select {
					case <-time.After(wait):
					case <-ctx.Done():
						return nil, &protocol.Error{Kind: protocol.Canceled, Outcome: "unknown", Message: "cancelled"}
					}
					if bytes.HasPrefix(body, []byte("ask")) {
						return client.Call(ctx, "question", json.RawMessage(`"`+string(body)+`"`))
					}
					return bytes.Clone(body), nil
				})
			front, _, stopFront := n.start("front", nil)
			to := there.self
			type outcome struct {
				body, result string
				err          error
			}
			outcomes := make(chan outcome, 100)
			var callers sync.WaitGroup
			for i := range 60 {
				callers.Go(func() {
					body := fmt.Sprintf("%d-%d", seed, i)
					switch i % 5 {
					case 1:
						body = "ask" + body
					case 2:
						body = fmt.Sprintf("%-32s", body) + string(bytes.Repeat([]byte("x"), 300<<10))
					}
					ctx := context.Background()
					if i%7 == 3 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, time.Duration(i)*20*time.Millisecond)
						defer cancel()
					}
					result, err := front.Call(ctx, to,
						&wire.Head{Request: wire.Request{Extension: "x", Method: "tools/call"}}, []byte(body), echo{})
					outcomes <- outcome{body, string(result), err}
				})
			}
			if seed%3 == 1 { // the server is unavailable for a while
				time.Sleep(300 * time.Millisecond)
				n.mu.Lock()
				n.off[to], n.cut[front.o.Self] = true, seed%2 == 0
				n.mu.Unlock()
				time.Sleep(4 * time.Second)
				n.mu.Lock()
				delete(n.off, to)
				delete(n.cut, front.o.Self)
				n.mu.Unlock()
			}
			if seed%7 == 2 {
				time.Sleep(200 * time.Millisecond)
				n.mu.Lock()
				delete(n.runs, to) // killed: nobody receives its messages
				n.mu.Unlock()
			}
			callers.Wait()
			close(outcomes)
			for o := range outcomes {
				runs := there.executed[o.body[:min(len(o.body), 32)]]
				e, _ := errors.AsType[*protocol.Error](o.err)
				want := o.body
				if bytes.HasPrefix([]byte(o.body), []byte("ask")) {
					want = `"` + o.body + `"`
				}
				switch {
				case runs > 1:
					t.Errorf("seed %d: %.40q ran %d times", seed, o.body, runs)
				case o.err == nil && (runs != 1 || o.result != want):
					t.Errorf("seed %d: %.40q ran %d times and returned %.40q", seed, o.body, runs, o.result)
				case o.err != nil && e == nil:
					t.Errorf("seed %d: %v", seed, o.err)
				case o.err != nil && e.Outcome == "" && runs != 0:
					t.Errorf("seed %d: %.40q was said not to have run, and did: %v", seed, o.body, o.err)
				case o.err != nil && n.loss == 0 && e.Kind != protocol.CallTimeout && seed%3 != 1 && seed%7 != 2 &&
					n.late == 0:
					t.Errorf("seed %d: %v", seed, o.err)
				}
			}
			time.Sleep(20 * time.Second) // late messages have arrived
			for body, runs := range there.executed {
				if runs > 1 {
					t.Errorf("seed %d: %.40q ran %d times in the end", seed, body, runs)
				}
			}
			if open := front.InFlight(to); open != 0 {
				t.Errorf("seed %d: %d calls are open in the end", seed, open)
			}
			time.Sleep(2 * time.Minute)
			if kept := owner.kept.used.Load(); kept != 0 {
				t.Errorf("seed %d: %d bytes of results are kept in the end", seed, kept)
			}
			if bodies := owner.receiving.Load() + front.receiving.Load(); bodies != 0 {
				t.Errorf("seed %d: %d bodies are on their way in the end", seed, bodies)
			}
			stopFront()
			stopOwner()
			n.work.Wait()
		})
	}
}

// echo answers each question with the question.
type echo struct{}

func (echo) Call(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	return params, nil
}
func (echo) Notify(context.Context, string, json.RawMessage) error { return nil }

// InFlight returns the number of open calls to a run.
func (p *Pairs) InFlight(run wire.Address) int {
	p.mu.Lock()
	r := p.runs[run]
	p.mu.Unlock()
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.out.open)
}
