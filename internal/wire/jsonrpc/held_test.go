package jsonrpc

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// inHand handles messages, each until letGo receives or the ctx of the message ends.
type inHand struct {
	taken chan string // the method of each message
	letGo chan struct{}
}

func newInHand() *inHand {
	return &inHand{taken: make(chan string, 2*maxInbox), letGo: make(chan struct{})}
}

func (h *inHand) message(ctx context.Context, m *Message) (json.RawMessage, error) {
	h.taken <- m.Method
	select {
	case <-h.letGo:
	case <-ctx.Done():
	}
	return raw("1"), nil
}

// counts returns how many messages of each method have been taken since the last call.
func (h *inHand) counts() map[string]int {
	counts := make(map[string]int)
	for range len(h.taken) {
		counts[<-h.taken]++
	}
	return counts
}

// TestAllMessagesInHandAreBounded fills the common budget with requests, a question of a call and notifications. Then
// no further message of any kind is taken until one is answered.
func TestAllMessagesInHandAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newInHand()
		w := newWire()
		c := serve(t, w, Options{
			Token:    byProgressToken,
			Handle:   h.message,
			Notified: func(ctx context.Context, m *Message) { _, _ = h.message(ctx, m) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := call(ctx, c, "{}", &CallOptions{Token: "t", OnMessage: h.message})
		<-w.fromConn
		pad := strings.Repeat("x", maxHeld/8)
		say := func(message string) {
			w.say(t, `{"jsonrpc":"2.0",%s,"pad":"%s"}`, message, pad)
			synctest.Wait()
		}
		const request, question, notification = `"id":1,"method":"request","params":"x"`,
			`"id":2,"method":"ask","params":"t"`, `"method":"notification","params":"x"`
		for _, message := range []string{
			request,
			request,
			request,
			request,
			request,
			question,
			notification,
			notification,
		} {
			say(message)
		}
		for _, message := range []string{request, question} {
			say(message)
			if m := <-w.fromConn; string(m.Error) != string(rawError(errOverloaded)) {
				t.Errorf("%s: %s %s", message, m.Result, m.Error)
			}
		}
		say(notification)
		if n := c.Stats().Dropped; n != 1 {
			t.Errorf("%d notifications were dropped", n)
		}
		if d := cmp.Diff(map[string]int{"request": 5, "ask": 1, "notification": 1}, h.counts()); d != "" {
			t.Error(d)
		}
		h.letGo <- struct{}{}
		go func() {
			for {
				select {
				case <-w.fromConn: // answers
				case <-w.closed:
					return
				}
			}
		}()
		synctest.Wait()
		say(request)
		if n := len(h.taken); n == 0 {
			t.Error("nothing was taken after a message had been handled")
		}
		cancel()
		<-done
	})
}

// TestQuestionIsOpenUntilItsResponseIsWritten has a peer ask without reading. Each question must
// count until its response is written: otherwise nothing would bound the unwritten responses.
func TestQuestionIsOpenUntilItsResponseIsWritten(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		ctx, cancel := context.WithCancel(t.Context())
		answers := 0
		done := call(ctx, c, "{}", &CallOptions{
			Token: "t",
			OnMessage: func(context.Context, *Message) (json.RawMessage, error) {
				c.update(func(*state) { answers++ })
				return raw("1"), nil
			},
		})
		<-w.fromConn
		for id := range maxInbox + 10 {
			w.say(t, "%s", question(id))
			synctest.Wait()
		}
		c.update(func(*state) {
			if answers != maxInbox {
				t.Errorf("%d questions were answered", answers)
			}
		})
		cancel()
		<-done
	})
}

// TestHandledMessagesOfACallAreFreed keeps one message queued at any time, behind many short ones that have grown the
// inbox.
func TestHandledMessagesOfACallAreFreed(t *testing.T) {
	bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
		h := newInHand()
		ctx, cancel := context.WithCancel(t.Context())
		done := call(ctx, c, "{}", &CallOptions{Token: "t", OnMessage: h.message})
		<-w.fromConn
		const n = 50
		short := 0 // queued messages
		for room := 0; room < n+2 && short < maxInbox/2; {
			w.say(t, "%s", progress)
			synctest.Wait()
			c.update(func(s *state) {
				short, room = len(s.calls[0].inbox), cap(s.calls[0].inbox)-len(s.calls[0].inbox)
			})
		}
		say := func() {
			w.say(t, `{"jsonrpc":"2.0","method":"progress","params":"t","pad":"%s"}`, strings.Repeat("x", 1<<20))
		}
		say()
		for range short {
			h.letGo <- struct{}{}
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range n {
			say()
			h.letGo <- struct{}{}
			synctest.Wait()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > n<<20/2 {
			t.Errorf("%d handled messages keep %d bytes", n, kept)
		}
		cancel()
		<-done
	})
}

// TestConnectionsShareABound lets one of two connections use up the shared budget.
func TestConnectionsShareABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, both := newInHand(), new(Held)
		both.bytes.Store(maxHeldByAll - 1) // used by others
		const request = `{"jsonrpc":"2.0","id":1,"method":"request"}`
		var wires []*wire
		for range 2 {
			w := newWire()
			serve(t, w, Options{Handle: h.message, Held: both})
			w.say(t, request)
			synctest.Wait()
			wires = append(wires, w)
		}
		if m := <-wires[1].fromConn; string(m.Error) != string(rawError(errOverloaded)) {
			t.Errorf("%s %s", m.Result, m.Error)
		}
		h.letGo <- struct{}{}
		<-wires[0].fromConn
		synctest.Wait()
		wires[1].say(t, request)
		synctest.Wait()
		if d := cmp.Diff(map[string]int{"request": 2}, h.counts()); d != "" {
			t.Error(d)
		}
	})
}
