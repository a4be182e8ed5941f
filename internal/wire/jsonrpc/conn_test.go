package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// wire is a transport whose other end is the test.
type wire struct {
	toConn   chan Message
	fromConn chan Message
	closed   chan struct{}
	once     sync.Once
}

func newWire() *wire {
	return &wire{toConn: make(chan Message), fromConn: make(chan Message), closed: make(chan struct{})}
}

func (w *wire) Read() (Message, error) {
	select {
	case m, ok := <-w.toConn:
		if !ok {
			return m, io.EOF
		}
		return m, nil
	case <-w.closed:
		return Message{}, ErrClosed
	}
}

func (w *wire) Write(ctx context.Context, m Message) error {
	m.ID = append(json.RawMessage(nil), m.ID...)
	select {
	case w.fromConn <- m:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.closed:
		return ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// say sends a frame to the connection, and returns how often its memory was given back.
func (w *wire) say(t *testing.T, format string, args ...any) (freed *atomic.Int32) {
	t.Helper()
	m, err := Decode(fmt.Appendf(nil, format, args...))
	if err != nil {
		t.Fatal(err)
	}
	freed = new(atomic.Int32)
	m.Free = func() { freed.Add(1) }
	w.toConn <- m
	return freed
}

// serve starts a connection. At the end of the test it checks that Serve returns and no call is in flight.
func serve(t *testing.T, tr Transport, o Options) *Conn {
	t.Helper()
	c := NewConn(tr, o)
	served := make(chan error, 1)
	go func() { served <- c.Serve(t.Context()) }()
	t.Cleanup(func() {
		c.Close()
		<-served
		if n := len(c.state.calls) + len(c.state.tokens); n != 0 {
			t.Errorf("%d calls left", n)
		}
		if c.state.held != 0 {
			t.Errorf("%d bytes of messages are still counted", c.state.held)
		}
	})
	return c
}

// outcome is the result of a Call.
type outcome struct {
	result string
	err    error
	took   time.Duration
}

// call makes a call in its own goroutine.
func call(ctx context.Context, c *Conn, params string, o *CallOptions) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		start := time.Now()
		result, err := c.Call(ctx, "m", raw(params), o)
		done <- outcome{string(result), err, time.Since(start)}
	}()
	return done
}

// bubble runs a test of a connection in virtual time.
func bubble(t *testing.T, o Options, f func(t *testing.T, c *Conn, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		f(t, serve(t, w, o), w)
	})
}

func TestCallOutOfOrder(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
		var calls []<-chan outcome
		ids := make(map[string]string) // by params
		for i := range 10 {
			calls = append(calls, call(t.Context(), c, fmt.Sprint(i), nil))
			m := <-w.fromConn
			ids[string(m.Params)] = string(m.ID)
		}
		for i := 9; i >= 0; i-- {
			w.say(t, `{"jsonrpc":"2.0","id":%s,"result":{"call":%d}}`, ids[fmt.Sprint(i)], i)
		}
		for i, done := range calls {
			if got := <-done; got.err != nil || got.result != fmt.Sprintf(`{"call":%d}`, i) {
				t.Errorf("call %d: %s, %v", i, got.result, got.err)
			}
		}
	})
}

// TestIDsAreComparedExactly answers with ids that some parsers confuse with the right one.
func TestIDsAreComparedExactly(t *testing.T) {
	bubble(t, Options{FirstID: 9007199254740993}, func(t *testing.T, c *Conn, w *wire) {
		done := call(t.Context(), c, "{}", nil)
		if m := <-w.fromConn; string(m.ID) != "9007199254740993" {
			t.Errorf("id %s", m.ID)
		}
		wrong := []string{"9007199254740992", `"9007199254740993"`, "9007199254740993.0", "9.007199254740993e15",
			"-9007199254740993", "null", "1e3", "0", "9007199254740994"}
		for _, id := range wrong {
			w.say(t, `{"jsonrpc":"2.0","id":%s,"result":"wrong"}`, id)
		}
		w.say(t, `{"jsonrpc":"2.0","id":9007199254740993,"result":"right"}`)
		if got := <-done; got.err != nil || got.result != `"right"` {
			t.Errorf("%s, %v", got.result, got.err)
		}
		synctest.Wait()
		if s := c.Stats(); s.Unknown+s.Duplicate != uint64(len(wrong)) {
			t.Errorf("%+v", s)
		}
	})
}

func TestCallErrors(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		want         error
	}{
		{"error", `"error":{"code":-7,"message":"no","data":{"n":9007199254740993}}`,
			&Error{Code: -7, Message: "no", Data: raw(`{"n":9007199254740993}`)}},
		{"H4 both", `"result":1,"error":{"code":1,"message":""}`, errBoth},
		{"H4 neither", `"x":1`, errNeither},
		{"H4 bad code", `"error":{"code":"x"}`, errErrorCode},
		{"H4 bad message", `"error":{"code":1,"message":["m"]}`, errErrorMessage},
		{"W2 UTF-8", "\"result\":\"\xff\"", rawjson.ErrUTF8},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, conn *Conn, w *wire) {
				done := call(t.Context(), conn, "{}", nil)
				<-w.fromConn
				line := `{"jsonrpc":"2.0","id":0,` + c.answer + "}"
				w.say(t, "%s", line)
				got := <-done
				if !Written(got.err) {
					t.Error("not marked as written")
				}
				if want, ok := c.want.(*Error); ok {
					if d := cmp.Diff(error(want), got.err); d != "" {
						t.Error(d)
					}
					return
				}
				var invalid *InvalidResponse
				if !errors.As(got.err, &invalid) || string(invalid.Line) != line ||
					c.want != nil && !errors.Is(invalid, c.want) {
					t.Errorf("%v", got.err)
				}
				done = call(t.Context(), conn, "{}", nil) // the connection is still open
				<-w.fromConn
				w.say(t, `{"jsonrpc":"2.0","id":1,"result":1}`)
				if got := <-done; got.err != nil {
					t.Error(got.err)
				}
			})
		})
	}
}

func TestInvalidResponseIsCut(t *testing.T) {
	err := invalidResponse(&Message{Raw: make([]byte, 1<<20)}, errBoth)
	if len(err.Line) != maxEvidence || cap(err.Line) > 2*maxEvidence {
		t.Errorf("%d bytes, %d held", len(err.Line), cap(err.Line))
	}
}

func TestBare(t *testing.T) {
	for _, bare := range []bool{false, true} {
		bubble(t, Options{Bare: bare}, func(t *testing.T, c *Conn, w *wire) {
			done := call(t.Context(), c, "{}", nil)
			if m := <-w.fromConn; m.Bare != bare {
				t.Errorf("request: bare %t, want %t", m.Bare, bare)
			}
			w.say(t, `{"id":0,"result":1}`)
			if got := <-done; (got.err == nil) != bare {
				t.Errorf("bare %t: %v", bare, got.err)
			}
			done = call(t.Context(), c, "{}", nil)
			<-w.fromConn
			w.say(t, `{"jsonrpc":"2.0","id":1,"error":{"code":7}}`)
			if got := <-done; errors.As(got.err, new(*InvalidResponse)) != bare {
				t.Errorf("bare %t, an error without message: %v", bare, got.err)
			}
		})
	}
}

// TestStraysAreCounted counts answers without a waiting call.
func TestStraysAreCounted(t *testing.T) {
	var told []string
	o := Options{Abandoned: func(_ context.Context, id uint64, method string, cause error) {
		told = append(told, fmt.Sprint(id, " ", method, " ", cause))
	}}
	bubble(t, o, func(t *testing.T, c *Conn, w *wire) {
		ctx, cancel := context.WithCancel(t.Context())
		canceled := call(ctx, c, "{}", nil)
		<-w.fromConn
		timed := call(t.Context(), c, "{}", &CallOptions{Timeout: time.Second})
		<-w.fromConn
		answered := call(t.Context(), c, "{}", nil)
		<-w.fromConn
		synctest.Wait()
		cancel()
		if got := <-canceled; !errors.Is(got.err, context.Canceled) || !Written(got.err) {
			t.Error(got.err)
		}
		if got := <-timed; !errors.Is(got.err, ErrTimeout) || !Written(got.err) {
			t.Error(got.err)
		}
		if s := c.Stats(); s.InFlight != 3 || s.Abandoned != 2 {
			t.Errorf("%+v", s)
		}
		for _, id := range []int{2, 0, 1, 0, 2, 3} {
			w.say(t, `{"jsonrpc":"2.0","id":%d,"result":%d}`, id, id)
		}
		if got := <-answered; got.result != "2" {
			t.Errorf("%s, %v", got.result, got.err)
		}
		synctest.Wait()
		if d := cmp.Diff(Stats{Answered: 3, Late: 2, Duplicate: 2, Unknown: 1, OutOfOrder: true}, c.Stats()); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"0 m context canceled", "1 m jsonrpc: no answer in time"}, told); d != "" {
			t.Error(d)
		}
	})
}

// Settle returns after Abandoned was called for all calls abandoned before.
func TestSettle(t *testing.T) {
	var tell chan struct{}
	bubble(t, Options{Abandoned: func(context.Context, uint64, string, error) { <-tell }},
		func(t *testing.T, c *Conn, w *wire) {
			tell = make(chan struct{}) // made inside the bubble
			c.Settle(t.Context())      // nothing to wait for
			ctx, cancel := context.WithCancel(t.Context())
			given := call(ctx, c, "{}", nil)
			<-w.fromConn
			cancel()
			<-given
			settled := make(chan struct{})
			go func() { defer close(settled); c.Settle(t.Context()) }()
			synctest.Wait()
			select {
			case <-settled:
				t.Error("settled before the peer was told")
			default:
			}
			impatient, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			c.Settle(impatient) // ends with its ctx
			tell <- struct{}{}
			<-settled
		})
}

func TestAbandonedIsBounded(t *testing.T) {
	c := NewConn(newWire(), Options{})
	for range maxAbandoned + 10 {
		pc := c.newPendingCall("m", nil)
		if err := c.state.add(pc); err != nil || !c.abandon(pc, io.EOF, io.EOF) {
			t.Fatal(err)
		}
	}
	if s := c.Stats(); s.Abandoned != maxAbandoned || s.InFlight != maxAbandoned {
		t.Errorf("%+v", s)
	}
}

func TestCallNotWritten(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
		ctx, cancel := context.WithCancel(t.Context())
		done := call(ctx, c, "{}", nil) // the peer does not read the frame
		synctest.Wait()
		cancel()
		if got := <-done; got.err != context.Canceled || Written(got.err) {
			t.Errorf("%v, written %t", got.err, Written(got.err))
		}
		if _, err := c.Call(ctx, "m", nil, nil); err != context.Canceled {
			t.Error(err)
		}
		if err := c.Notify(ctx, "n", nil); err != context.Canceled {
			t.Error(err)
		}
		if s := c.Stats(); s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestEnd ends connections in every way, while one call waits for its answer and another for its frame to be read.
func TestEnd(t *testing.T) {
	for _, e := range []struct {
		name string
		end  func(c *Conn, w *wire, cancel func())
		want error
	}{
		{"EOF", func(_ *Conn, w *wire, _ func()) { close(w.toConn) }, io.EOF},
		{"Close", func(c *Conn, _ *wire, _ func()) { c.Close(); c.Close() }, ErrClosed},
		{"ctx", func(_ *Conn, _ *wire, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(e.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newWire()
				c := NewConn(w, Options{})
				served := make(chan error)
				go func() { served <- c.Serve(ctx) }()
				waits := call(t.Context(), c, "{}", nil)
				<-w.fromConn
				blocked := call(t.Context(), c, "{}", nil)
				synctest.Wait()
				e.end(c, w, cancel)
				if err := <-served; err != e.want || c.Err() != e.want {
					t.Errorf("Serve: %v, Err: %v", err, c.Err())
				}
				if got := <-waits; !errors.Is(got.err, ErrClosed) || !errors.Is(got.err, e.want) || !Written(got.err) {
					t.Errorf("waiting call: %v, written %t", got.err, Written(got.err))
				}
				if got := <-blocked; !errors.Is(got.err, ErrClosed) || Written(got.err) {
					t.Errorf("blocked call: %v, written %t", got.err, Written(got.err))
				}
				if _, err := c.Call(t.Context(), "m", nil, nil); !errors.Is(err, ErrClosed) || Written(err) {
					t.Errorf("call afterwards: %v", err)
				}
				if err := c.Notify(t.Context(), "n", nil); !errors.Is(err, ErrClosed) {
					t.Errorf("notification afterwards: %v", err)
				}
			})
		})
	}
}

// The memory of an answer is freed once: after it was converted to memory of its own, or when no call waits for it. It
// is not freed while the result or an error refers to it.
func TestAnswersAreFreed(t *testing.T) {
	const result, fault = `"result":"x"`, `"error":{"code":1,"message":"m","data":{}}`
	convert := func(own bool) func(json.RawMessage) (json.RawMessage, bool) {
		return func(json.RawMessage) (json.RawMessage, bool) { return raw(`"converted"`), own }
	}
	for name, test := range map[string]struct {
		convert func(json.RawMessage) (json.RawMessage, bool)
		answer  string
		want    string
		freed   int32
	}{
		"as it is":         {nil, result, `"x"`, 0},
		"converted":        {convert(true), result, `"converted"`, 1},
		"converted, alias": {convert(false), result, `"converted"`, 0},
		"error":            {convert(true), fault, "", 0},
		"invalid":          {convert(true), result + "," + fault, "", 0},
	} {
		bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
			done := call(t.Context(), c, "1", &CallOptions{Convert: test.convert})
			id := (<-w.fromConn).ID
			freed := w.say(t, `{"jsonrpc":"2.0","id":%s,%s}`, id, test.answer)
			if got := <-done; got.result != test.want || (got.err == nil) != (test.want != "") {
				t.Errorf("%s: %s, %v", name, got.result, got.err)
			}
			if freed.Load() != test.freed {
				t.Errorf("%s: freed %d times, want %d", name, freed.Load(), test.freed)
			}
			again := w.say(t, `{"jsonrpc":"2.0","id":%s,%s}`, id, result)
			synctest.Wait()
			if again.Load() != 1 {
				t.Errorf("%s: an answer without a call was freed %d times", name, again.Load())
			}
		})
	}
}
