package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHandle(t *testing.T) {
	handle := func(_ context.Context, m *Message) (json.RawMessage, error) {
		switch m.Method {
		case "echo":
			return m.Params, nil
		case "none":
			return nil, nil
		case "encoded":
			m.Encoder = encoder("[3]")
			return nil, nil
		case "fails":
			m.Encoder = encoder("{}")
			return nil, errors.New("failed")
		case "mine":
			return nil, fmt.Errorf("wrapped: %w", &Error{Code: 7, Message: "mine"})
		}
		return nil, errors.New("other")
	}
	for _, c := range []struct {
		name, request string
		handle        func(context.Context, *Message) (json.RawMessage, error)
		want          Message
	}{
		{"result", `{"jsonrpc":"2.0","id":1.0,"method":"echo","params":[1e400]}`, handle,
			Message{ID: raw("1.0"), Result: raw("[1e400]")}},
		{"encoder", `{"jsonrpc":"2.0","id":1,"method":"encoded"}`, handle,
			Message{ID: raw("1"), Encoder: encoder("[3]")}},
		{"nothing", `{"jsonrpc":"2.0","id":null,"method":"none"}`, handle, Message{ID: raw("null")}},
		{"error of its own", `{"jsonrpc":"2.0","id":"a","method":"mine"}`, handle,
			Message{ID: raw(`"a"`), Error: raw(`{"code":7,"message":"mine"}`)}},
		{"error in place of an encoder's result", `{"jsonrpc":"2.0","id":1,"method":"fails"}`, handle,
			Message{ID: raw("1"), Error: raw(`{"code":-32603,"message":"failed"}`)}},
		{"other error", `{"jsonrpc":"2.0","id":1,"method":"x"}`, handle,
			Message{ID: raw("1"), Error: raw(`{"code":-32603,"message":"other"}`)}},
		{"no handler", `{"jsonrpc":"2.0","id":1,"method":"x"}`, nil,
			Message{ID: raw("1"), Error: raw(`{"code":-32601,"message":"method not found"}`)}},
		{"not 2.0", `{"id":1,"method":"echo"}`, handle,
			Message{ID: raw("1"), Error: raw(`{"code":-32600,"message":"no \"jsonrpc\":\"2.0\""}`)}},
	} {
		for _, inline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/inline=%t", c.name, inline), func(t *testing.T) {
				bubble(t, Options{Handle: c.handle, Inline: inline}, func(t *testing.T, _ *Conn, w *wire) {
					w.say(t, "%s", c.request)
					if d := cmp.Diff(c.want, <-w.fromConn); d != "" {
						t.Error(d)
					}
				})
			})
		}
	}
}

// breaking is a wire that breaks when it has sent a message.
type breaking struct{ *wire }

func (b breaking) Write(ctx context.Context, m Message) error {
	if _, err := Append(nil, &m); err != nil {
		return err
	}
	return errors.Join(b.wire.Write(ctx, m), errors.New("the connection broke"))
}

// TestRequestGetsOneAnswer tests that an error takes the place of an answer only if the answer does not encode: the
// peer may have an answer whose sending failed.
func TestRequestGetsOneAnswer(t *testing.T) {
	const notJSON = "jsonrpc: payload is not JSON: unexpected end of JSON input"
	for result, want := range map[string]Message{
		"{}":  {ID: raw("1"), Result: raw("{}")},
		"{\n": {ID: raw("1"), Error: raw(`{"code":-32603,"message":"` + notJSON + `"}`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			serve(t, breaking{w}, Options{
				Handle: func(context.Context, *Message) (json.RawMessage, error) { return raw(result), nil },
			})
			w.say(t, `{"jsonrpc":"2.0","id":1,"method":"x"}`)
			if d := cmp.Diff(want, <-w.fromConn); d != "" {
				t.Error(d)
			}
			synctest.Wait()
			select {
			case m := <-w.fromConn:
				t.Errorf("a second answer: %s", m.Error)
			default:
			}
		})
	}
}

// TestOverload fills all handlers: the next request is refused, and accepted again when one is done.
func TestOverload(t *testing.T) {
	for _, inline := range []bool{false, true} {
		gate := make(map[string]chan struct{})
		for i := range 3 {
			gate[fmt.Sprint(i)] = nil
		}
		o := Options{
			MaxHandlers: 2,
			Inline:      inline,
			Handle: func(_ context.Context, m *Message) (json.RawMessage, error) {
				<-gate[string(m.ID)]
				return m.ID, nil
			},
		}
		bubble(t, o, func(t *testing.T, _ *Conn, w *wire) {
			for id := range gate {
				gate[id] = make(chan struct{})
			}
			w.say(t, `{"jsonrpc":"2.0","id":0,"method":"m"}`)
			w.say(t, `{"jsonrpc":"2.0","id":1,"method":"m"}`)
			w.say(t, `{"jsonrpc":"2.0","id":2,"method":"m"}`)
			if m := <-w.fromConn; string(m.ID) != "2" ||
				string(m.Error) != `{"code":-32016,"message":"too many requests at once"}` {
				t.Errorf("inline %t: %s %s %s", inline, m.ID, m.Result, m.Error)
			}
			close(gate["0"])
			if m := <-w.fromConn; string(m.Result) != "0" {
				t.Errorf("inline %t: %s %s", inline, m.ID, m.Error)
			}
			synctest.Wait()
			close(gate["2"])
			w.say(t, `{"jsonrpc":"2.0","id":2,"method":"m"}`)
			if m := <-w.fromConn; string(m.Result) != "2" {
				t.Errorf("inline %t: %s %s", inline, m.ID, m.Error)
			}
			close(gate["1"])
			<-w.fromConn
		})
	}
}

func TestHandlerContextEnds(t *testing.T) {
	for _, inline := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire()
			c := NewConn(w, Options{
				Inline: inline,
				Handle: func(ctx context.Context, _ *Message) (json.RawMessage, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			})
			served := make(chan error)
			go func() { served <- c.Serve(t.Context()) }()
			w.say(t, `{"jsonrpc":"2.0","id":1,"method":"m"}`)
			synctest.Wait()
			c.Close()
			if err := <-served; err != ErrClosed {
				t.Error(err)
			}
		})
	}
}

func TestNotified(t *testing.T) {
	var got []string
	block := make(chan struct{})
	o := Options{Notified: func(_ context.Context, n *Message) {
		if len(got) == 0 {
			<-block
		}
		got = append(got, string(n.Params))
	}}
	synctest.Test(t, func(t *testing.T) {
		block = make(chan struct{})
		w := newWire()
		c := serve(t, w, o)
		var want []string
		say := func(i int) { w.say(t, `{"jsonrpc":"2.0","method":"n","params":%d}`, i) }
		say(0)
		synctest.Wait() // the first one is being handled
		for i := range maxQueue + 10 {
			say(i + 1)
		}
		for i := range maxQueue + 1 {
			want = append(want, fmt.Sprint(i))
		}
		w.say(t, `{"method":"not 2.0"}`)
		synctest.Wait()
		close(block)
		synctest.Wait()
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if s := c.Stats(); s.Dropped != 11 {
			t.Errorf("%+v", s)
		}
	})
}

// TestOnMessage checks that the caller handles the messages of its call in order, before Call returns.
func TestOnMessage(t *testing.T) {
	o := Options{Token: byProgressToken, Notified: func(context.Context, *Message) { panic("not for this call") }}
	bubble(t, o, func(t *testing.T, c *Conn, w *wire) {
		var got []string
		done := call(t.Context(), c, "{}", &CallOptions{
			Token: "t",
			OnMessage: func(_ context.Context, m *Message) (json.RawMessage, error) {
				got = append(got, m.Method) // races with the test unless it runs before the answer
				if m.Method == "bad" {
					return nil, errNoHandler
				}
				return raw(`"ok"`), nil
			},
		})
		<-w.fromConn
		if _, err := c.Call(t.Context(), "m", nil, &CallOptions{Token: "t"}); err == nil || Written(err) {
			t.Errorf("the token is taken: %v", err)
		}
		w.say(t, progress)
		w.say(t, `{"jsonrpc":"2.0","id":1,"method":"good","params":"t"}`)
		if m := <-w.fromConn; string(m.ID) != "1" || string(m.Result) != `"ok"` {
			t.Errorf("%s %s %s", m.ID, m.Result, m.Error)
		}
		w.say(t, `{"jsonrpc":"2.0","id":2,"method":"bad","params":"t"}`)
		if m := <-w.fromConn; string(m.ID) != "2" || m.Error == nil {
			t.Errorf("%s %s %s", m.ID, m.Result, m.Error)
		}
		w.say(t, progress)
		w.say(t, `{"jsonrpc":"2.0","id":0,"result":1}`)
		if r := <-done; r.result != "1" {
			t.Error(r.err)
		}
		if d := cmp.Diff([]string{"progress", "good", "bad", "progress"}, got); d != "" {
			t.Error(d)
		}
	})
}

func TestInboxOverflow(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		block := make(chan struct{})
		n := 0
		done := call(t.Context(), c, "{}", &CallOptions{
			Token: "t",
			OnMessage: func(context.Context, *Message) (json.RawMessage, error) {
				<-block
				n++
				return nil, nil
			},
		})
		<-w.fromConn
		w.say(t, progress)
		synctest.Wait() // the request is being handled
		for range maxInbox + 5 {
			w.say(t, progress)
		}
		w.say(t, `{"jsonrpc":"2.0","id":1,"method":"ask","params":"t"}`)
		if m := <-w.fromConn; string(m.Error) != string(rawError(errOverloaded)) {
			t.Errorf("%s %s", m.Result, m.Error)
		}
		w.say(t, `{"jsonrpc":"2.0","id":0,"result":1}`)
		synctest.Wait()
		close(block)
		if r := <-done; r.err != nil || n != maxInbox+1 {
			t.Errorf("%d messages, %v", n, r.err)
		}
		if s := c.Stats(); s.Dropped != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRequestOfDeadCall checks that the ctx of open requests ends when the caller cancels, and that a request queued
// behind a notification is refused.
func TestRequestOfDeadCall(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		ctx, cancel := context.WithCancel(t.Context())
		done := call(ctx, c, "{}", &CallOptions{
			Token: "t",
			OnMessage: func(ctx context.Context, _ *Message) (json.RawMessage, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		<-w.fromConn
		w.say(t, `{"jsonrpc":"2.0","id":1,"method":"ask","params":"t"}`)
		synctest.Wait()
		w.say(t, progress)
		w.say(t, `{"jsonrpc":"2.0","id":2,"method":"ask","params":"t"}`)
		synctest.Wait()
		cancel()
		got := map[string]string{}
		for range 2 {
			m := <-w.fromConn
			got[string(m.ID)] = string(m.Error)
		}
		want := map[string]string{"1": string(rawError(context.Canceled)), "2": string(rawError(ErrCallEnded))}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if r := <-done; !errors.Is(r.err, context.Canceled) {
			t.Error(r.err)
		}
		w.say(t, progress) // belongs to no call now
	})
}

func TestTokenWithoutOnMessage(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		done := call(t.Context(), c, "{}", &CallOptions{Token: "t"})
		<-w.fromConn
		w.say(t, progress)
		w.say(t, `{"jsonrpc":"2.0","id":1,"method":"ask","params":"t"}`)
		if m := <-w.fromConn; string(m.Error) != string(rawError(errNoHandler)) {
			t.Errorf("%s %s", m.Result, m.Error)
		}
		w.say(t, `{"jsonrpc":"2.0","id":0,"result":1}`)
		if r := <-done; r.err != nil || c.Stats().Dropped != 1 {
			t.Errorf("%v, %+v", r.err, c.Stats())
		}
	})
}

// TestErrorWithoutAnID sends an error with id null. It ends a call only if no other call, and no notification, can be
// meant.
func TestErrorWithoutAnID(t *testing.T) {
	const sorry = `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"the database is away"}}`
	for name, tt := range map[string]struct {
		begin func(t *testing.T, c *Conn, w *wire)
		taken bool
	}{
		"the only call": {func(*testing.T, *Conn, *wire) {}, true},
		"and a standing one": {func(t *testing.T, c *Conn, w *wire) {
			call(t.Context(), c, "{}", &CallOptions{Standing: true})
			<-w.fromConn
		}, true},
		"two calls": {func(t *testing.T, c *Conn, w *wire) {
			call(t.Context(), c, "{}", nil)
			<-w.fromConn
		}, false},
		"an abandoned call": {func(t *testing.T, c *Conn, w *wire) {
			ctx, cancel := context.WithCancel(t.Context())
			done := call(ctx, c, "{}", nil)
			<-w.fromConn
			cancel()
			<-done
		}, false},
		"behind a notification": {notifies, false},
		"behind a notification and an answer": {func(t *testing.T, c *Conn, w *wire) {
			notifies(t, c, w)
			done := call(t.Context(), c, "{}", nil)
			w.say(t, `{"jsonrpc":"2.0","id":%s,"result":1}`, (<-w.fromConn).ID)
			<-done
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var strays []bool
			o := Options{Stray: func(_ *Message, taken bool) { strays = append(strays, taken) }}
			bubble(t, o, func(t *testing.T, c *Conn, w *wire) {
				strays = nil
				tt.begin(t, c, w)
				done := call(t.Context(), c, "{}", &CallOptions{Timeout: time.Minute})
				id := (<-w.fromConn).ID
				w.say(t, sorry)
				synctest.Wait()
				w.say(t, `{"jsonrpc":"2.0","id":%s,"result":1}`, id)
				got := <-done
				if e, ok := errors.AsType[*Error](got.err); ok != tt.taken ||
					ok && e.Message != "the database is away" {
					t.Errorf("%s, %v", got.result, got.err)
				}
				synctest.Wait()
				want := []bool{tt.taken}
				if tt.taken { // the answer that follows is a duplicate
					want = append(want, false)
				}
				if d := cmp.Diff(want, strays); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

func notifies(t *testing.T, c *Conn, w *wire) {
	go c.Notify(t.Context(), "n", nil)
	<-w.fromConn
}

// TestAnswersBeforeTheFirstID sends answers to ids below FirstID, which were never sent.
func TestAnswersBeforeTheFirstID(t *testing.T) {
	bubble(t, Options{FirstID: 1}, func(t *testing.T, c *Conn, w *wire) {
		w.say(t, answered)
		synctest.Wait()
		if s := c.Stats(); s.Unknown != 1 || s.Duplicate != 0 {
			t.Errorf("%+v", s)
		}
	})
}
