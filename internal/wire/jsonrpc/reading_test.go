package jsonrpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
)

func echo(_ context.Context, m *jsonrpc.Message) (json.RawMessage, error) { return m.Params, nil }

// TestInlineHandlerMayBlock runs inline handlers that wait for later requests, which another goroutine must read.
func TestInlineHandlerMayBlock(t *testing.T) {
	near, far := pipes(t)
	arrived := make(chan struct{}, 10)
	serve(t, far, jsonrpc.Options{
		Inline: true,
		Handle: func(_ context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
			if m.Method == "last" {
				for range 10 {
					arrived <- struct{}{}
				}
				return m.Params, nil
			}
			<-arrived
			return m.Params, nil
		},
	})
	c := serve(t, near, jsonrpc.Options{})
	var calls []<-chan outcome
	for i := range 10 {
		calls = append(calls, call(t.Context(), c, fmt.Sprint(i), nil))
	}
	if _, err := c.Call(t.Context(), "last", nil, nil); err != nil {
		t.Error(err)
	}
	for i, done := range calls {
		if got := <-done; got.result != fmt.Sprint(i) {
			t.Errorf("call %d: %s, %v", i, got.result, got.err)
		}
	}
}

// TestInlineHandlerMayCall runs an inline handler that calls the peer.
func TestInlineHandlerMayCall(t *testing.T) {
	near, far := pipes(t)
	var server *jsonrpc.Conn
	ready := make(chan struct{})
	server = serve(t, far, jsonrpc.Options{
		Inline: true,
		Handle: func(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
			<-ready
			return server.Call(ctx, "back", m.Params, nil)
		},
	})
	close(ready)
	c := serve(t, near, jsonrpc.Options{Handle: echo})
	for i := range 20 {
		if got, err := c.Call(t.Context(), "there", json.RawMessage(fmt.Sprint(i)), nil); err != nil ||
			string(got) != fmt.Sprint(i) {
			t.Fatal(string(got), err)
		}
	}
}

// scriptedPeer is the other end of a connection over real pipes, driven by the test.
type scriptedPeer struct {
	t   *testing.T
	in  *bufio.Reader
	out *os.File
}

func newScriptedPeer(t *testing.T) (*ndjson.Transport, *scriptedPeer) {
	near, far := pipePair(t)
	t.Cleanup(func() {
		far.in.Close()
		far.out.Close()
	})
	return near.transport(), &scriptedPeer{t, bufio.NewReader(far.in), far.out}
}

func (p *scriptedPeer) next() (id string) {
	p.t.Helper()
	line, err := p.in.ReadBytes('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := jsonrpc.Decode(line)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(m.ID)
}

func (p *scriptedPeer) say(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.out, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *scriptedPeer) answer(id string) { p.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, id) }

// lendReading makes calls until Serve has lent reading.
func lendReading(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer) {
	t.Helper()
	for !c.Lent() {
		done := call(t.Context(), c, "{}", nil)
		p.answer(p.next())
		if got := <-done; got.err != nil {
			t.Fatal(got.err)
		}
	}
}

// TestLentReading covers the events that can happen while reading is lent or a caller reads.
func TestLentReading(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer, notified <-chan string)
	}{
		{"notification between calls", func(t *testing.T, _ *jsonrpc.Conn, p *scriptedPeer, notified <-chan string) {
			p.say(`{"jsonrpc":"2.0","method":"n","params":1}`)
			if got := <-notified; got != "1" {
				t.Error(got)
			}
		}},
		{"notification during a call", func(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer, notified <-chan string) {
			done := call(t.Context(), c, "{}", nil)
			id := p.next()
			p.say(`{"jsonrpc":"2.0","method":"n","params":2}`)
			<-notified
			p.answer(id)
			if got := <-done; got.err != nil {
				t.Error(got.err)
			}
		}},
		{"canceled call", func(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer, _ <-chan string) {
			ctx, cancel := context.WithCancel(t.Context())
			done := call(ctx, c, "{}", nil)
			p.next()
			cancel()
			if got := <-done; !errors.Is(got.err, context.Canceled) {
				t.Error(got.err)
			}
		}},
		{"call that times out", func(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer, _ <-chan string) {
			done := call(t.Context(), c, "{}", &jsonrpc.CallOptions{Timeout: 5 * time.Millisecond})
			p.next()
			if got := <-done; !errors.Is(got.err, jsonrpc.ErrTimeout) {
				t.Error(got.err)
			}
		}},
		{"two calls, the second answered first", func(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer, _ <-chan string) {
			one := call(t.Context(), c, "{}", nil)
			id := p.next()
			two := call(t.Context(), c, "{}", nil)
			p.answer(p.next())
			<-two
			p.answer(id)
			if got := <-one; got.result != id {
				t.Error(got.result, got.err)
			}
		}},
		{"two calls, the first answered first", func(t *testing.T, c *jsonrpc.Conn, p *scriptedPeer, _ <-chan string) {
			one := call(t.Context(), c, "{}", nil)
			id := p.next()
			two := call(t.Context(), c, "{}", nil)
			other := p.next()
			p.answer(id)
			<-one
			p.answer(other)
			if got := <-two; got.result != other {
				t.Error(got.result, got.err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, p := newScriptedPeer(t)
			notified := make(chan string)
			conn := serve(t, l,
				jsonrpc.Options{Notified: func(_ context.Context, n *jsonrpc.Message) { notified <- string(n.Params) }})
			for range 20 { // the outcome must not depend on who reads
				lendReading(t, conn, p)
				c.run(t, conn, p, notified)
			}
		})
	}
}

// TestEndWhileLent ends connections while reading is lent, and while a caller reads.
func TestEndWhileLent(t *testing.T) {
	for name, end := range map[string]func(c *jsonrpc.Conn, p *scriptedPeer){
		"Close": func(c *jsonrpc.Conn, _ *scriptedPeer) { c.Close() },
		"EOF":   func(_ *jsonrpc.Conn, p *scriptedPeer) { p.out.Close() },
	} {
		for _, calling := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/calling=%t", name, calling), func(t *testing.T) {
				l, p := newScriptedPeer(t)
				c := jsonrpc.NewConn(l, jsonrpc.Options{})
				served := make(chan error)
				go func() { served <- c.Serve(t.Context()) }()
				lendReading(t, c, p)
				var done <-chan outcome
				if calling {
					done = call(t.Context(), c, "{}", nil)
					p.next()
				}
				end(c, p)
				if err := <-served; err != jsonrpc.ErrClosed && err != io.EOF {
					t.Error(err)
				}
				if !calling {
					return
				}
				if got := <-done; !errors.Is(got.err, jsonrpc.ErrClosed) || !jsonrpc.Written(got.err) {
					t.Error(got.err)
				}
			})
		}
	}
}

// TestDrain closes the peer's end while a handler runs.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		drain    time.Duration
		answered bool
	}{{time.Hour, true}, {time.Millisecond, false}, {0, false}} {
		for _, inline := range []bool{false, true} {
			nearEnds, farEnds := pipePair(t)
			near, far := nearEnds.transport(), farEnds.transport()
			release := make(chan struct{})
			conn := jsonrpc.NewConn(far, jsonrpc.Options{
				Drain:  c.drain,
				Inline: inline,
				Handle: func(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
					select {
					case <-release:
					case <-ctx.Done():
					}
					return m.Params, ctx.Err()
				},
			})
			served := make(chan error)
			go func() { served <- conn.Serve(t.Context()) }()
			if err := near.Write(t.Context(),
				jsonrpc.Message{
					ID:     json.RawMessage("1"),
					Method: "m",
					Params: json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`),
				}); err != nil {
				t.Fatal(err)
			}
			if err := near.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			nearEnds.out.Close()
			if c.answered {
				<-conn.ReadDone()
				if _, err := conn.Call(t.Context(), "m", nil, nil); !errors.Is(err, jsonrpc.ErrClosed) {
					t.Error(err)
				}
				close(release)
			}
			m, err := near.Read()
			if (err == nil) != c.answered || c.answered && len(m.Result) != 100_002 {
				t.Errorf("drain %v, inline %t: %d bytes, %v", c.drain, inline, len(m.Result), err)
			}
			if err := <-served; err != io.EOF {
				t.Error(err)
			}
			near.Close()
		}
	}
}

// TestStandingCall lends reading to a caller while a standing call is in flight.
func TestStandingCall(t *testing.T) {
	near, peer := newScriptedPeer(t)
	c := serve(t, near, jsonrpc.Options{})
	listening, cancel := context.WithCancel(t.Context())
	standing := make(chan error, 1)
	go func() {
		_, err := c.Call(listening, "listen", nil, &jsonrpc.CallOptions{Standing: true})
		standing <- err
	}()
	listen := peer.next()
	lendReading(t, c, peer)
	done := call(t.Context(), c, "{}", nil)
	peer.answer(peer.next())
	if got := <-done; got.err != nil {
		t.Error(got.err)
	}
	cancel()
	if err := <-standing; !errors.Is(err, context.Canceled) {
		t.Errorf("standing call: %v", err)
	}
	peer.answer(listen) // many servers answer when the subscription has ended
	done = call(t.Context(), c, "{}", nil)
	peer.answer(peer.next())
	if got := <-done; got.err != nil {
		t.Error(got.err)
	}
	if s := c.Stats(); s.Late != 1 || s.OutOfOrder {
		t.Errorf("an answer to a standing call says nothing about the order: %+v", s)
	}
}
