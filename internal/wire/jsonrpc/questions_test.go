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

	"github.com/exthost/exthost/internal/text/rawjson"
)

// cancelsByID returns the id that a test notification cancels.
func cancelsByID(m *Message) json.RawMessage {
	if m.Method != "cancel" {
		return nil
	}
	return rawjson.Get(m.Params, "id")
}

func question(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ask","params":"t"}`, id)
}

const (
	answered  = `{"jsonrpc":"2.0","id":0,"result":1}`
	cancelled = `{"jsonrpc":"2.0","method":"cancel","params":{"id":%d}}`
)

// asks has an OnMessage whose questions stay open until their ctx ends. It records why each ended.
type asks struct {
	opened, notified chan string
	ended            chan error
}

func newAsks() *asks {
	return &asks{
		opened:   make(chan string, 2*maxInbox),
		notified: make(chan string, 10),
		ended:    make(chan error, 2*maxInbox),
	}
}

func (a *asks) message(ctx context.Context, m *Message) (json.RawMessage, error) {
	if m.ID == nil {
		a.notified <- m.Method
		return nil, nil
	}
	a.opened <- string(m.ID)
	<-ctx.Done()
	a.ended <- context.Cause(ctx)
	return nil, ctx.Err()
}

// TestOpenQuestionDelaysNothing opens two questions that are not answered. Progress behind them and the answer of the
// call arrive at once, and the questions end with the call.
func TestOpenQuestionDelaysNothing(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		a := newAsks()
		done := call(t.Context(), c, "{}",
			&CallOptions{Token: "t", Timeout: time.Second, MaxTimeout: time.Hour, OnMessage: a.message})
		<-w.fromConn
		for id := range 2 {
			w.say(t, "%s", question(id))
			if got := <-a.opened; got != fmt.Sprint(id) {
				t.Errorf("question %s", got)
			}
		}
		w.say(t, progress)
		<-a.notified
		time.Sleep(time.Minute) // Timeout is suspended
		w.say(t, answered)
		refused := map[string]string{}
		for range 2 {
			if err := <-a.ended; err != ErrCallEnded {
				t.Errorf("a question ended with %v", err)
			}
			m := <-w.fromConn
			refused[string(m.ID)] = string(m.Error)
		}
		want := map[string]string{"0": string(rawError(ErrCallEnded)), "1": string(rawError(ErrCallEnded))}
		if d := cmp.Diff(want, refused); d != "" {
			t.Error(d)
		}
		if got := <-done; got.result != "1" || got.took != time.Minute {
			t.Errorf("%s, %v after %v", got.result, got.err, got.took)
		}
	})
}

// TestMaxTimeoutEndsOpenQuestions has a peer ask twice and not answer the call.
func TestMaxTimeoutEndsOpenQuestions(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		a := newAsks()
		done := call(t.Context(), c, "{}",
			&CallOptions{Token: "t", Timeout: time.Second, MaxTimeout: 5 * time.Second, OnMessage: a.message})
		<-w.fromConn
		w.say(t, "%s", question(0))
		w.say(t, "%s", question(1))
		for range 2 {
			if m := <-w.fromConn; m.Error == nil {
				t.Errorf("%s %s", m.ID, m.Result)
			}
		}
		if got := <-done; !errors.Is(got.err, ErrTimeout) || got.took != 5*time.Second {
			t.Errorf("%v after %v", got.err, got.took)
		}
	})
}

// TestPeerCancelsItsQuestion cancels a question being answered, one queued behind a notification, and a request that
// belongs to no call. None gets a response.
func TestPeerCancelsItsQuestion(t *testing.T) {
	a := newAsks()
	o := Options{
		Token:   byProgressToken,
		Cancels: cancelsByID,
		Handle:  func(ctx context.Context, m *Message) (json.RawMessage, error) { return a.message(ctx, m) },
	}
	bubble(t, o, func(t *testing.T, c *Conn, w *wire) {
		*a = *newAsks()
		busy := make(chan struct{})
		done := call(t.Context(), c, "{}", &CallOptions{
			Token: "t",
			OnMessage: func(ctx context.Context, m *Message) (json.RawMessage, error) {
				if m.ID == nil {
					<-busy
				}
				return a.message(ctx, m)
			},
		})
		<-w.fromConn
		w.say(t, "%s", question(1))
		w.say(t, `{"jsonrpc":"2.0","id":2,"method":"of no call","params":"x"}`)
		<-a.opened
		<-a.opened
		w.say(t, progress)
		w.say(t, "%s", question(3))
		for id := range 5 { // 0 and 4 are not questions
			w.say(t, cancelled, id)
		}
		for range 2 {
			if err := <-a.ended; err != errWithdrawn {
				t.Errorf("a question ended with %v", err)
			}
		}
		close(busy)
		synctest.Wait()
		w.say(t, answered)
		if got := <-done; got.result != "1" || len(a.opened) != 0 || len(c.state.serving) != 0 {
			t.Errorf("%s, %v; %d opened, %d left", got.result, got.err, len(a.opened), len(c.state.serving))
		}
		synctest.Wait()
		select {
		case m := <-w.fromConn:
			t.Errorf("a cancelled request got the response %s %s", m.Result, m.Error)
		default:
		}
	})
}

// TestOpenQuestionsAreBounded opens as many questions of a call as allowed, and one more.
func TestOpenQuestionsAreBounded(t *testing.T) {
	bubble(t, Options{Token: byProgressToken, Cancels: cancelsByID}, func(t *testing.T, c *Conn, w *wire) {
		a := newAsks()
		ctx, cancel := context.WithCancel(t.Context())
		done := call(ctx, c, "{}", &CallOptions{Token: "t", OnMessage: a.message})
		<-w.fromConn
		for id := range maxInbox {
			w.say(t, "%s", question(id))
		}
		synctest.Wait()
		w.say(t, "%s", question(maxInbox))
		if m := <-w.fromConn; string(m.Error) != string(rawError(errOverloaded)) {
			t.Errorf("%s %s", m.Result, m.Error)
		}
		w.say(t, cancelled, 7)
		<-a.ended
		synctest.Wait()
		w.say(t, "%s", question(7))
		synctest.Wait()
		if n := len(a.opened); n != maxInbox+1 {
			t.Errorf("%d questions were opened", n)
		}
		cancel()
		for range maxInbox {
			<-w.fromConn
		}
		<-done
	})
}

// TestHandlerThatDoesNotEnd keeps a question open after the end of its ctx. The call returns after a grace period,
// and Serve waits for the handler.
func TestHandlerThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		c := NewConn(w, Options{Token: byProgressToken})
		served := make(chan error)
		go func() { served <- c.Serve(t.Context()) }()
		stubborn := make(chan struct{})
		done := call(t.Context(), c, "{}", &CallOptions{
			Token: "t",
			OnMessage: func(context.Context, *Message) (json.RawMessage, error) {
				<-stubborn
				return raw("true"), nil
			},
		})
		<-w.fromConn
		w.say(t, "%s", question(1))
		synctest.Wait()
		w.say(t, answered)
		if got := <-done; got.result != "1" || got.took != questionsGrace {
			t.Errorf("%s, %v after %v", got.result, got.err, got.took)
		}
		c.Close()
		select {
		case err := <-served:
			t.Errorf("Serve returned %v while a handler ran", err)
		case <-time.After(time.Minute):
		}
		close(stubborn)
		<-served
	})
}
