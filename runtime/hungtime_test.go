//go:build unix

package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// fakeWire is an in-memory transport to a peer that is a function.
type fakeWire struct {
	mu     sync.Mutex                   // one write at a time
	peer   func(m jsonrpc.Message)      // receives what is written
	full   func(m jsonrpc.Message) bool // reports whether there is no room for m; nil: there is always room
	log    *slog.Logger                 // the run's log; nil discards
	lines  chan string                  // written by the peer
	closed chan struct{}
	close  func()
}

func newFakeWire() *fakeWire {
	w := &fakeWire{lines: make(chan string, 1024), closed: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

func (w *fakeWire) Read() (jsonrpc.Message, error) {
	select {
	case line := <-w.lines:
		return jsonrpc.Decode([]byte(line))
	case <-w.closed:
		return jsonrpc.Message{}, jsonrpc.ErrClosed
	}
}

func (w *fakeWire) Write(ctx context.Context, m jsonrpc.Message) error {
	if w.full != nil && w.full(m) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.closed:
			return jsonrpc.ErrClosed
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peer(m)
	return nil
}

func (w *fakeWire) Close() error               { w.close(); return nil }
func (w *fakeWire) EndSession(context.Context) {}

func (w *fakeWire) answer(id json.RawMessage) {
	w.lines <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"hooks":[]}}`, id)
}

// answerMCP answers initialize as an MCP server does.
func (w *fakeWire) answerMCP(id json.RawMessage) {
	w.lines <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`, id)
}

// fakePeer answers the handshake; further requests go to serve.
func fakePeer(w *fakeWire, serve func(m jsonrpc.Message)) {
	w.peer = func(m jsonrpc.Message) {
		switch {
		case m.ID == nil:
		case m.Method == protocol.MethodInitialize && strings.Contains(string(m.Params), "protocolVersion"):
			w.answerMCP(m.ID)
		case m.Method == protocol.MethodInitialize, m.Method == protocol.MethodToolsList:
			w.answer(m.ID)
		default:
			m.ID = slices.Clone(m.ID)
			serve(m)
		}
	}
}

// silentRun is a run of a fake peer under synctest.
type silentRun struct {
	*child
	began time.Time
	ended chan *protocol.Error
}

func runFake(t *testing.T, w *fakeWire, o manifest.Options, version string) *silentRun {
	s := &Spec{
		ID:       "x",
		Manifest: &manifest.Manifest{Transport: manifest.Transport{MCPVersion: version}},
		Options:  o,
		Logger:   cmp.Or(w.log, discarding()),
	}
	var d dialect = &native{spec: s}
	if version != "" {
		d = newMCP(s)
	}
	r := &remote{Transport: w, closed: make(chan struct{})}
	r.close = sync.OnceFunc(func() { _ = w.Close(); close(r.closed) })
	run := &silentRun{child: newChild(s, d, r), ended: make(chan *protocol.Error, 1)}
	run.connect(&tappedTransport{Transport: w})
	ready := make(chan struct{})
	go func() { run.ended <- run.run(t.Context(), func() { close(ready) }) }()
	<-ready
	run.began = time.Now()
	return run
}

// callers makes calls from n goroutines until a call finds the run ended, each call with the deadline unless that is 0.
// It returns the outcomes of the first calls.
func (r *silentRun) callers(n int, deadline time.Duration) (kinds []protocol.Kind) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range n {
		wg.Go(func() {
			for first := true; ; first = false {
				ctx, cancel := context.Background(), func() {}
				if deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, deadline)
				}
				_, fault := r.call(ctx, &Request{Method: protocol.MethodToolsCall})
				cancel()
				if first {
					mu.Lock()
					kinds = append(kinds, fault.Kind)
					mu.Unlock()
				}
				select {
				case <-r.done:
					return
				default:
				}
			}
		})
	}
	wg.Wait()
	return kinds
}

// TestHungIsReplacedInTime has children stop, and checks when the run ends: to the millisecond, on a virtual clock.
func TestHungIsReplacedInTime(t *testing.T) {
	silence := func(*fakeWire, jsonrpc.Message) {}
	writes := func(w *fakeWire, m jsonrpc.Message) {
		w.lines <- `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	}
	for name, c := range map[string]struct {
		serve       func(w *fakeWire, m jsonrpc.Message)
		overtaking  bool // it has answered calls out of order
		callers     int
		deadline    time.Duration
		recycle     bool
		callTimeout time.Duration // 30 s by default
		want        time.Duration // time until the end of the run
	}{
		"one caller":                                 {silence, false, 1, 0, false, 0, 160 * time.Second},
		"one caller, recycle_on_hang":                {silence, false, 1, 0, true, 0, 40 * time.Second},
		"16 callers":                                 {silence, false, 16, 0, false, 0, 60 * time.Second},
		"16 callers, works on several calls":         {silence, true, 16, 0, false, 0, 40 * time.Second},
		"callers that leave after 1 s":               {silence, false, 16, time.Second, false, 0, 31 * time.Second},
		"callers that leave, works on several calls": {silence, true, 16, time.Second, false, 0, 30 * time.Second},
		"one that leaves, works on several calls":    {silence, true, 1, time.Second, false, 0, 30 * time.Second},
		"callers that leave, call_timeout of 2 s": {silence, true, 16, time.Second, false, 2 * time.Second,
			11 * time.Second},
		"16 callers, writes notifications, no answer": {writes, false, 16, 0, false, 0, 630 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFakeWire()
				var early []json.RawMessage
				stops := false
				fakePeer(w, func(m jsonrpc.Message) {
					switch early = append(early, m.ID); {
					case stops:
						c.serve(w, m)
					case len(early) == 2:
						stops = true
						if c.overtaking {
							slices.Reverse(early)
						}
						w.answer(early[0])
						w.answer(early[1])
					}
				})
				o := (&manifest.Runtime{}).Resolve(manifest.Transport{})
				o.RecycleOnHang, o.MaxInFlight = c.recycle, 1000
				if c.callTimeout > 0 {
					o.CallTimeout = c.callTimeout
				}
				r := runFake(t, w, o, "")
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() { _, _ = r.call(context.Background(), &Request{Method: protocol.MethodToolsCall}) })
					synctest.Wait()
				}
				wg.Wait()
				r.began = time.Now()
				kinds := r.callers(c.callers, c.deadline)
				fault := <-r.ended
				if took := time.Since(r.began); fault.Kind != protocol.CallTimeout ||
					took.Round(10*time.Millisecond) != c.want {
					t.Errorf("ended after %v with %v, want %v", took, fault, c.want)
				}
				for _, kind := range kinds {
					if kind != protocol.CallTimeout {
						t.Errorf("a caller got %s", kind)
					}
				}
			})
		})
	}
}

// TestHungWithoutRoomForAPing has a child that reads so little that a ping cannot be written behind the waiting
// requests. It is replaced all the same.
func TestHungWithoutRoomForAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWire()
		fakePeer(w, func(jsonrpc.Message) {})
		w.full = func(m jsonrpc.Message) bool { return m.Method == protocol.MethodPing }
		o := (&manifest.Runtime{}).Resolve(manifest.Transport{})
		o.MaxInFlight = 1000
		r := runFake(t, w, o, "")
		r.callers(16, 0)
		fault := <-r.ended
		if took := time.Since(r.began); fault.Kind != protocol.CallTimeout ||
			took.Round(10*time.Millisecond) != time.Minute {
			t.Errorf("ended after %v with %v", took, fault)
		}
	})
}

// TestEndIsNoAnswer has children end after a missed ping. The log must not claim that they answer again.
func TestEndIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWire()
		fakePeer(w, func(jsonrpc.Message) {})
		o := (&manifest.Runtime{}).Resolve(manifest.Transport{})
		o.HealthInterval = time.Second
		var log logBuffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		r := runFake(t, w, o, "")
		time.Sleep(2500 * time.Millisecond) // within the second ping
		r.endpoint.Kill()
		if fault := <-r.ended; fault.Kind != protocol.ChildExited {
			t.Error(fault)
		}
		wantContains(t, log.String(), "it missed a ping")
		if strings.Contains(log.String(), "answers again") {
			t.Error(log.String())
		}
	})
}

// TestBusyIsNotReplaced has a child that works on one call at a time, and answers each just before CallTimeout, or
// reports progress for longer. It must not be replaced.
func TestBusyIsNotReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		callers  int
		deadline time.Duration
		version  string // MCP version; "": native
		most     int    // MaxInFlight
	}{
		"16 callers": {16, 0, "", 0},
		// a native child owes an answer to each call of a caller that has left
		"callers that leave":                     {16, time.Second, "", 0},
		"MCP, callers that leave":                {16, time.Second, protocol.MCP20251125, 64},
		"MCP, callers that leave and fill it up": {16, time.Second, protocol.MCP20251125, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, queue := newFakeWire(), make(chan json.RawMessage, 1<<14)
				fakePeer(w, func(m jsonrpc.Message) { queue <- m.ID })
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { // one call at a time, 29 s each
					for {
						select {
						case id := <-queue:
							pause(ctx, 29*time.Second)
							w.answer(id)
						case <-ctx.Done():
							return
						}
					}
				})
				o := (&manifest.Runtime{}).Resolve(manifest.Transport{})
				o.MaxInFlight = c.most
				r := runFake(t, w, o, c.version)
				for range c.callers {
					wg.Go(func() {
						for ctx.Err() == nil {
							one, cancel := ctx, func() {}
							if c.deadline > 0 {
								one, cancel = context.WithTimeout(ctx, c.deadline)
							}
							_, _ = r.call(one, &Request{Method: protocol.MethodToolsCall})
							cancel()
							pause(ctx, time.Second)
						}
					})
				}
				select {
				case fault := <-r.ended:
					t.Errorf("after %v: %v", time.Since(r.began), fault)
				case <-time.After(5 * time.Minute):
				}
				stop()
				r.endpoint.Kill()
				wg.Wait()
			})
		})
	}
}

// brokenWire is a fakeWire that accepts no message and stays open.
type brokenWire struct{ *fakeWire }

func (brokenWire) Write(context.Context, jsonrpc.Message) error {
	return errors.New("no room for a header")
}

// TestHandshakeThatCannotBeWritten ends the run although the connection stays open.
func TestHandshakeThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeWire()
		s := &Spec{ID: "x", Manifest: &manifest.Manifest{}, Logger: discarding()}
		r := &remote{Transport: w, closed: make(chan struct{})}
		r.close = sync.OnceFunc(func() { _ = w.Close(); close(r.closed) })
		c := newChild(s, &native{spec: s}, r)
		c.connect(brokenWire{w})
		began := time.Now()
		fault := c.run(t.Context(), func() { t.Error("it is ready") })
		if fault.Kind != protocol.HandshakeInvalid || !strings.Contains(fault.Message, "no room for a header") ||
			time.Since(began) > stopTimeout {
			t.Errorf("%s: %v after %v", fault.Kind, fault, time.Since(began))
		}
	})
}
