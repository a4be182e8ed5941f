package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// byProgressToken returns the token of a test message: its params, unquoted.
func byProgressToken(m *Message) string { return string(rawjson.Unquote(m.Params)) }

const progress = `{"jsonrpc":"2.0","method":"progress","params":"t"}`

func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		name string
		o    CallOptions
		say  []time.Duration // pause before each progress message
		want time.Duration
	}{
		{"timeout", CallOptions{Timeout: 3 * time.Second}, nil, 3 * time.Second},
		{"only max", CallOptions{MaxTimeout: 3 * time.Second}, nil, 3 * time.Second},
		{"max below timeout", CallOptions{Timeout: 5 * time.Second, MaxTimeout: 3 * time.Second}, nil, 3 * time.Second},
		{"progress without max", CallOptions{Timeout: 3 * time.Second}, []time.Duration{2 * time.Second},
			3 * time.Second},
		{"progress", CallOptions{Timeout: 3 * time.Second, MaxTimeout: time.Minute},
			[]time.Duration{2 * time.Second, 2 * time.Second}, 7 * time.Second},
		{"progress up to max", CallOptions{Timeout: 3 * time.Second, MaxTimeout: 6 * time.Second},
			[]time.Duration{2 * time.Second, 2 * time.Second}, 6 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Options{Token: byProgressToken}, func(t *testing.T, conn *Conn, w *wire) {
				c.o.Token = "t"
				slow := call(t.Context(), conn, "{}", &CallOptions{Timeout: time.Hour}) // shares the timer
				<-w.fromConn
				done := call(t.Context(), conn, "{}", &c.o)
				<-w.fromConn
				for _, pause := range c.say {
					time.Sleep(pause)
					w.say(t, progress)
				}
				if got := <-done; !errors.Is(got.err, ErrTimeout) || got.took != c.want {
					t.Errorf("%v after %v, want %v", got.err, got.took, c.want)
				}
				if got := <-slow; !errors.Is(got.err, ErrTimeout) || got.took != time.Hour {
					t.Errorf("the other call: %v after %v", got.err, got.took)
				}
			})
		})
	}
}

// TestTimeoutFromWrite checks that Timeout does not start before the frame is written.
func TestTimeoutFromWrite(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
		done := call(t.Context(), c, "{}", &CallOptions{Timeout: time.Second})
		time.Sleep(time.Minute)
		<-w.fromConn
		if got := <-done; !errors.Is(got.err, ErrTimeout) || got.took != time.Minute+time.Second {
			t.Errorf("%v after %v", got.err, got.took)
		}
	})
}

// TestTimeoutWhileServing has OnMessage answer a request of the peer slowly. Meanwhile only MaxTimeout applies, and
// it ends the ctx of OnMessage.
func TestTimeoutWhileServing(t *testing.T) {
	for _, max := range []time.Duration{time.Hour, 5 * time.Second} {
		bubble(t, Options{Token: byProgressToken}, func(t *testing.T, c *Conn, w *wire) {
			done := call(t.Context(), c, "{}", &CallOptions{
				Timeout:    time.Second,
				MaxTimeout: max,
				Token:      "t",
				OnMessage: func(ctx context.Context, m *Message) (json.RawMessage, error) {
					select {
					case <-time.After(10 * time.Second):
					case <-ctx.Done():
					}
					return m.Params, ctx.Err()
				},
			})
			<-w.fromConn
			w.say(t, `{"jsonrpc":"2.0","id":"p","method":"ask","params":"t"}`)
			reply := <-w.fromConn
			if failed := reply.Error != nil; failed != (max == 5*time.Second) {
				t.Errorf("max %v: reply %s %s", max, reply.Result, reply.Error)
			}
			want := min(max, 11*time.Second) // silent again for Timeout
			if got := <-done; !errors.Is(got.err, ErrTimeout) || got.took != want {
				t.Errorf("%v after %v, want %v", got.err, got.took, want)
			}
			synctest.Wait()
		})
	}
}

// TestQuiet checks Quiet for a peer that answers the second call first.
func TestQuiet(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
		limit := &CallOptions{Timeout: time.Minute}
		first, second := call(t.Context(), c, "{}", limit), (<-chan outcome)(nil)
		a := <-w.fromConn
		time.Sleep(time.Second)
		second = call(t.Context(), c, "{}", limit)
		b := <-w.fromConn
		synctest.Wait()
		if q := c.Quiet(); q != time.Second {
			t.Errorf("before any answer it is quiet for %v", q)
		}
		w.say(t, `{"jsonrpc":"2.0","id":%s,"result":1}`, b.ID)
		<-second
		if q, s := c.Quiet(), c.Stats(); q != 0 || s.Answered != 1 || s.OutOfOrder {
			t.Errorf("after the answer to the second call it is quiet for %v, %+v", q, s)
		}
		w.say(t, `{"jsonrpc":"2.0","id":%s,"result":1}`, a.ID)
		<-first
		third := call(t.Context(), c, "{}", limit)
		<-w.fromConn
		<-third
		if q, s := c.Quiet(), c.Stats(); q != time.Minute || s.Answered != 2 || !s.OutOfOrder {
			t.Errorf("after a call without an answer it is quiet for %v, %+v", q, s)
		}
	})
}

// TestLimitNoticedLate lets the limit of a call pass while the process does not run, as after
// SIGSTOP. An answer that was sent in the meantime is still returned.
func TestLimitNoticedLate(t *testing.T) {
	for name, limit := range map[string]CallOptions{
		"timeout": {Timeout: time.Minute, MaxTimeout: time.Hour},
		"max":     {MaxTimeout: time.Minute},
	} {
		for _, answers := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
					done := call(t.Context(), c, "{}", &limit)
					<-w.fromConn
					synctest.Wait()
					c.update(func(s *state) { // as if the minute had passed long ago
						for _, pc := range s.calls {
							pc.deadline = pc.deadline.Add(-time.Hour)
							pc.limit = pc.limit.Add(-time.Hour)
						}
					})
					c.expire()
					synctest.Wait()
					if answers {
						w.say(t, answered)
					}
					if got := <-done; answers && (got.result != "1" || got.took != 0) ||
						!answers && (!errors.Is(got.err, ErrTimeout) || got.took != CatchUp) {
						t.Errorf("%s, %v after %v", got.result, got.err, got.took)
					}
				})
			})
		}
	}
}

// lateContext is a ctx whose deadline is noticed an hour late.
type lateContext struct{ context.Context }

func (c lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Hour), true }

func (c lateContext) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// TestDeadlineNoticedLate is TestLimitNoticedLate for the caller's deadline.
func TestDeadlineNoticedLate(t *testing.T) {
	for _, answers := range []bool{true, false} {
		bubble(t, Options{}, func(t *testing.T, c *Conn, w *wire) {
			ctx, pass := context.WithCancel(t.Context())
			done := call(lateContext{ctx}, c, "{}", nil)
			<-w.fromConn
			pass()
			synctest.Wait()
			if answers {
				w.say(t, answered)
			}
			if got := <-done; answers && (got.result != "1" || got.took != 0) ||
				!answers && (!errors.Is(got.err, context.DeadlineExceeded) || got.took != CatchUp) {
				t.Errorf("%s, %v after %v", got.result, got.err, got.took)
			}
		})
	}
}
