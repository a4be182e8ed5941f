package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const water = `{"jsonrpc":"2.0","method":"water","params":"all"}`

// flood sends frames, as fast as they are read, until the connection closes.
func (w *wire) flood(t *testing.T) {
	m, err := Decode([]byte(water))
	if err != nil {
		t.Error(err)
	}
	for {
		select {
		case w.toConn <- m:
		case <-w.closed:
			return
		}
	}
}

// TestFloodIsHeldUp sends, before the answer to a call, more unsolicited messages than
// the burst allows, of each kind.
func TestFloodIsHeldUp(t *testing.T) {
	for name, frame := range map[string]string{
		"notifications":       water,
		"progress":            progress,
		"not 2.0":             `{"method":"water","params":"all"}`,
		"refused requests":    `{"jsonrpc":"2.0","id":1,"method":"water","params":"all"}`,
		"refused of the call": `{"jsonrpc":"2.0","id":1,"method":"water","params":"t"}`,
		"unknown answers":     `{"jsonrpc":"2.0","id":7,"result":1}`,
		"long notifications":  long(water, 9*unsolicitedBytes),
		"long answers":        long(`{"jsonrpc":"2.0","id":7,"result":"all"}`, 99*unsolicitedBytes),
		"huge notifications":  long(water, 2*unsolicitedBurst*unsolicitedBytes),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
				done := call(t.Context(), c, "{}", &CallOptions{Token: "t", Timeout: time.Hour})
				<-w.fromConn
				go func() {
					for range w.fromConn { // refusals
					}
				}()
				each := min(1+len(frame)/unsolicitedBytes, unsolicitedBurst)
				n := (unsolicitedBurst + unsolicitedRate) / each
				want := time.Duration(n*each-unsolicitedBurst) * time.Second / unsolicitedRate
				for range n {
					w.say(t, "%s", frame)
				}
				w.say(t, `{"jsonrpc":"2.0","id":0,"result":1}`)
				if got := <-done; got.err != nil || got.took < want-minPause || got.took > want+minPause {
					t.Errorf("%v after %v, want %v", got.err, got.took, want)
				}
				close(w.fromConn)
			})
		})
	}
}

// long returns frame with n more bytes in it.
func long(frame string, n int) string {
	return strings.Replace(frame, "all", strings.Repeat("x", n), 1)
}

// TestFloodOfRequestsIsHeldUp sends more requests than the burst allows. Inline handlers
// are not limited.
func TestFloodOfRequestsIsHeldUp(t *testing.T) {
	for inline, want := range map[bool]time.Duration{false: time.Second, true: 0} {
		handle := func(context.Context, *Message) (json.RawMessage, error) { return json.RawMessage("{}"), nil }
		bubble(t, Options{Handle: handle, Inline: inline}, func(t *testing.T, _ *Conn, w *wire) {
			start := time.Now()
			for range unsolicitedBurst + unsolicitedRate {
				w.say(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				<-w.fromConn
			}
			if took := time.Since(start); took < want-minPause || took > want {
				t.Errorf("inline %v: %v, want %v", inline, took, want)
			}
		})
	}
}

// TestNoFloodIsNotHeldUp sends many messages that are not limited: those that the host
// asked for, and unsolicited ones below the rate.
func TestNoFloodIsNotHeldUp(t *testing.T) {
	const n = 3 * unsolicitedBurst
	t.Run("late answers", func(t *testing.T) {
		bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
			ctx, cancel := context.WithCancel(t.Context())
			for range maxAbandoned {
				call(ctx, c, "{}", nil)
				<-w.fromConn
			}
			cancel()
			synctest.Wait()
			start := time.Now()
			for id := range maxAbandoned {
				w.say(t, `{"jsonrpc":"2.0","id":%d,"result":1}`, id)
			}
			synctest.Wait()
			if took := time.Since(start); took != 0 || c.Stats().Late != maxAbandoned {
				t.Errorf("%v, %+v", took, c.Stats())
			}
		})
	})
	t.Run("requests of a call", func(t *testing.T) {
		bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
			done := call(t.Context(), c, "{}", &CallOptions{Token: "t", OnMessage: func(_ context.Context, m *Message) (json.RawMessage, error) {
				return m.Params, nil
			}})
			<-w.fromConn
			for range n {
				w.say(t, `{"jsonrpc":"2.0","id":1,"method":"ask","params":"t"}`)
				<-w.fromConn
			}
			w.say(t, `{"jsonrpc":"2.0","id":0,"result":1}`)
			if got := <-done; got.err != nil || got.took != 0 {
				t.Errorf("%v after %v", got.err, got.took)
			}
		})
	})
	t.Run("progress at half the rate", func(t *testing.T) {
		bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
			done := call(t.Context(), c, "{}", &CallOptions{Token: "t", Timeout: time.Second, MaxTimeout: time.Hour})
			<-w.fromConn
			start := time.Now()
			for range n {
				w.say(t, progress)
				time.Sleep(2 * time.Second / unsolicitedRate)
			}
			w.say(t, `{"jsonrpc":"2.0","id":0,"result":1}`)
			if got, want := <-done, n*2*time.Second/unsolicitedRate; got.err != nil || got.took != want {
				t.Errorf("%v after %v, want %v; %v", got.err, got.took, want, time.Since(start))
			}
		})
	})
}

// TestEndOfFloodedConn ends a connection, and calls, during a pause of the reader: neither
// may wait for the reader.
func TestEndOfFloodedConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		c := NewConn(w, Options{})
		served := make(chan error)
		go func() { served <- c.Serve(t.Context()) }()
		go w.flood(t)
		time.Sleep(time.Second)
		for range 3 {
			timed := call(t.Context(), c, "{}", &CallOptions{Timeout: time.Second})
			<-w.fromConn
			if got := <-timed; got.err == nil || got.took != time.Second {
				t.Errorf("%v after %v", got.err, got.took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			given := call(ctx, c, "{}", nil)
			<-w.fromConn
			if got := <-given; !errors.Is(got.err, context.DeadlineExceeded) || got.took != time.Second {
				t.Errorf("%v after %v", got.err, got.took)
			}
			cancel()
		}
		waits := call(t.Context(), c, "{}", nil)
		<-w.fromConn
		start := time.Now()
		c.Close()
		if err := <-served; err != ErrClosed {
			t.Error(err)
		}
		if got := <-waits; !errors.Is(got.err, ErrClosed) {
			t.Error(got.err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
}

// lendingWire is a wire whose reading can be lent. Like lines that came in one read, the
// messages in ahead are returned before an interruption.
type lendingWire struct {
	*wire
	ahead       []Message
	interrupted chan struct{}
}

func (w *lendingWire) canInterrupt() bool { return true }

func (w *lendingWire) interrupt() {
	select {
	case w.interrupted <- struct{}{}:
	default:
	}
}

func (w *lendingWire) Read() (m Message, err error) {
	if len(w.ahead) > 0 {
		m, w.ahead = w.ahead[0], w.ahead[1:]
		return m, nil
	}
	select {
	case m := <-w.toConn:
		return m, nil
	case <-w.interrupted:
		return m, errInterrupted
	case <-w.closed:
		return m, ErrClosed
	}
}

// TestCallerIsNotHeldUp sends a flood while a caller reads. The caller must notice the end
// of its ctx as soon as without a flood.
func TestCallerIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &lendingWire{wire: newWire(), interrupted: make(chan struct{}, 1)}
		c := serve(t, w, Options{})
		for is := serveReads; is != lent; c.update(func(s *state) { is = s.reading.role }) {
			done := call(t.Context(), c, "{}", nil)
			m := <-w.fromConn
			w.say(t, `{"jsonrpc":"2.0","id":%s,"result":1}`, m.ID)
			<-done
		}
		m, err := Decode([]byte(water))
		if err != nil {
			t.Fatal(err)
		}
		for range unsolicitedBurst + unsolicitedRate {
			w.ahead = append(w.ahead, m)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		done := call(ctx, c, "{}", nil)
		<-w.fromConn
		if got := <-done; !errors.Is(got.err, context.DeadlineExceeded) || got.took > 100*time.Millisecond+2*tick {
			t.Errorf("%v after %v", got.err, got.took)
		}
	})
}

// answers is a writer that calls a function for each write.
type answers func(frames []byte)

func (w answers) Write(b []byte) (int, error) { w(b); return len(b), nil }
func (answers) Close() error                  { return nil }

// TestAnswersAreNotHeldUp sends requests within a flood. Answers held back must not wait
// for a pause of the reader.
func TestAnswersAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []time.Time // when the unanswered requests arrived
		late := 0
		w := answers(func(frames []byte) {
			mu.Lock()
			defer mu.Unlock()
			for range bytes.Count(frames, []byte("\n")) {
				if !asked[0].Equal(time.Now()) { // time passes only in pauses
					late++
				}
				asked = asked[1:]
			}
		})
		flood := strings.Repeat(water+"\n", 83)
		r := strings.NewReader(strings.Repeat(flood+`{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n", 100) + flood)
		c := NewConn(NewLineTransport(io.NopCloser(r), w, LineOptions{}), Options{
			Inline: true, Drain: time.Second,
			Handle: func(_ context.Context, m *Message) (json.RawMessage, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, time.Now())
				return m.Params, nil
			},
		})
		if err := c.Serve(t.Context()); err != io.EOF || len(asked) > 0 || late > 0 {
			t.Errorf("%v; %d not answered, %d late", err, len(asked), late)
		}
	})
}

// TestWasteIsHeldUp sends many bytes that are no messages.
func TestWasteIsHeldUp(t *testing.T) {
	for name, line := range map[string]string{"empty lines": "\n", "spaces": "       \n", "noise": "water!!\n"} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stream := strings.Repeat(line, 5*maxWaste/len(line)) + water
			l := readingTransport(strings.NewReader(stream), LineOptions{Noise: func([]byte, error) error { return nil }})
			if m, err := l.Read(); err != nil || m.Method != "water" {
				t.Errorf("%s: %s, %v", name, m.Raw, err)
			}
			if took := time.Since(start); took != 5*minPause {
				t.Errorf("%s: held up for %v", name, took)
			}
		})
	}
}

// TestCallsThroughFlood runs callers alone and together, which cancel and call again while
// the peer floods them, over real pipes.
func TestCallsThroughFlood(t *testing.T) {
	near, far := pipes(t)
	var peer *Conn
	ready := make(chan struct{})
	peer = serve(t, far, Options{Handle: func(ctx context.Context, m *Message) (json.RawMessage, error) {
		<-ready
		for range 200 {
			if err := peer.Notify(ctx, "water", nil); err != nil {
				return nil, err
			}
		}
		return m.Params, nil
	}})
	close(ready)
	c := serve(t, near, Options{})
	for _, callers := range []int{1, 4, 1} {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range 12 {
					params := fmt.Sprint(100*i + j)
					ctx, cancel := context.WithCancel(t.Context())
					if j%4 == 3 {
						time.AfterFunc(2*tick, cancel)
					}
					got, err := c.Call(ctx, "m", raw(params), nil)
					if canceled := ctx.Err() != nil && errors.Is(err, context.Canceled); !canceled && (err != nil || string(got) != params) {
						t.Errorf("%s answered with %s, %v", params, got, err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
	}
}
