package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const water = `{"jsonrpc":"2.0","method":"water","params":"all"}`

// flood sends frames as fast as they are read, until the connection closes.
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

// TestFloodIsHeldUp sends more unsolicited messages than the burst allows, of each kind, before the answer to a call.
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

// long returns frame with n more bytes.
func long(frame string, n int) string {
	return strings.Replace(frame, "all", strings.Repeat("x", n), 1)
}

// TestFloodOfRequestsIsHeldUp sends more requests than the burst allows. Inline handlers are not limited.
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

// TestNoFloodIsNotHeldUp sends many messages that are not limited: solicited ones, and unsolicited ones below the
// rate.
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
			done := call(t.Context(), c, "{}", &CallOptions{
				Token: "t",
				OnMessage: func(_ context.Context, m *Message) (json.RawMessage, error) {
					return m.Params, nil
				},
			})
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

// TestEndOfFloodedConn ends a connection, and calls, during a pause of the reader; neither may wait for the pause.
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

// lendingWire is a wire that supports lending. The messages in ahead are returned before an interruption, like lines
// that arrived in one read.
type lendingWire struct {
	*wire
	ahead       []Message
	interrupted chan struct{}
}

func (w *lendingWire) CanInterrupt() bool { return true }

func (w *lendingWire) Interrupt() {
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
		return m, ErrInterrupted
	case <-w.closed:
		return m, ErrClosed
	}
}

// TestCallerIsNotHeldUp sends a flood while a caller reads. The caller must notice the end of its
// ctx as early as without a flood.
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

// TestLongMessagesWaitInBounds sends messages so long that only few of them may be queued.
func TestLongMessagesWaitInBounds(t *testing.T) {
	pad := strings.Repeat("x", maxWaiting/4)
	for name, want := range map[string]struct {
		frame   string
		dropped uint64
	}{
		"notifications": {`{"jsonrpc":"2.0","method":"water","params":"` + pad + `"}`, 6},
		// The one in progress is not queued.
		"of a call": {`{"jsonrpc":"2.0","method":"progress","params":"t","pad":"` + pad + `"}`, 5},
	} {
		t.Run(name, func(t *testing.T) {
			busy := func(ctx context.Context, _ *Message) { <-ctx.Done() }
			bubble(t, Options{Token: byProgressToken, Notified: busy}, func(t *testing.T, c *Conn, w *wire) {
				ctx, cancel := context.WithCancel(t.Context())
				done := call(ctx, c, "{}", &CallOptions{
					Token: "t",
					OnMessage: func(ctx context.Context, m *Message) (json.RawMessage, error) {
						busy(ctx, m)
						return nil, nil
					},
				})
				<-w.fromConn
				for range 10 { // four of them are queued
					w.say(t, "%s", want.frame)
					synctest.Wait()
				}
				if n := c.Stats().Dropped; n != want.dropped {
					t.Errorf("%d dropped", n)
				}
				cancel()
				<-done
			})
		})
	}
}

// TestRefusalKeepsNoRequest refuses long requests of a peer that does not read.
func TestRefusalKeepsNoRequest(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		frame := long(`{"jsonrpc":"2.0","id":1,"method":"water","params":"all"}`, 1<<20)
		const n = 100
		for range n {
			w.say(t, "%s", frame)
			synctest.Wait()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > n<<20/2 {
			t.Errorf("%d refusals keep %d bytes", n, kept)
		}
	})
}
