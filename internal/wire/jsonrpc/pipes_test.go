package jsonrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
)

const water = `{"jsonrpc":"2.0","method":"water","params":"all"}`

// serve starts a connection. At the end of the test it checks that Serve returns and no call is in flight.
func serve(t *testing.T, tr jsonrpc.Transport, o jsonrpc.Options) *jsonrpc.Conn {
	t.Helper()
	c := jsonrpc.NewConn(tr, o)
	served := make(chan error, 1)
	go func() { served <- c.Serve(t.Context()) }()
	t.Cleanup(func() {
		c.Close()
		<-served
		if n := c.Registered(); n != 0 {
			t.Errorf("%d calls left", n)
		}
	})
	return c
}

// outcome is the result of a Call.
type outcome struct {
	result string
	err    error
}

// call makes a call in its own goroutine.
func call(ctx context.Context, c *jsonrpc.Conn, params string, o *jsonrpc.CallOptions) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		result, err := c.Call(ctx, "m", json.RawMessage(params), o)
		done <- outcome{string(result), err}
	}()
	return done
}

// ends are the pipes of a transport.
type ends struct{ in, out *os.File }

func (e ends) transport() *ndjson.Transport { return ndjson.New(e.in, e.out, ndjson.Options{}) }

// pipePair returns the two ends of a connection over real pipes.
func pipePair(t testing.TB) (a, b ends) {
	t.Helper()
	ar, bw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	br, aw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return ends{ar, aw}, ends{br, bw}
}

// pipes returns two connected transports over real pipes.
func pipes(t testing.TB) (a, b *ndjson.Transport) {
	near, far := pipePair(t)
	return near.transport(), far.transport()
}

// TestStorm runs 64 callers that cancel at random against a peer that answers in any order and then closes while
// calls are in flight.
func TestStorm(t *testing.T) {
	near, far := pipes(t)
	peer := serve(t, far, jsonrpc.Options{
		MaxHandlers: 10_000,
		Handle: func(_ context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
			for range rand.IntN(100) {
				runtime.Gosched() // let others overtake
			}
			return m.Params, nil
		},
	})
	c := serve(t, near, jsonrpc.Options{})
	storm := func(calls int) {
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				for i := range calls {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
					params := fmt.Sprintf(`"%d-%d-%s"`, w, i, strings.Repeat("x", rand.IntN(5000)))
					got, err := c.Call(ctx, "echo", json.RawMessage(params),
						&jsonrpc.CallOptions{Timeout: time.Duration(rand.IntN(3000)) * time.Microsecond})
					switch {
					case err == nil && string(got) != params:
						t.Errorf("%.20s answered with %.20s", params, got)
					case err != nil && !errors.Is(err, context.DeadlineExceeded) &&
						!errors.Is(err, jsonrpc.ErrTimeout) && !errors.Is(err, jsonrpc.ErrClosed):
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
	}
	storm(50)
	if err := far.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for c.Stats().Abandoned > 0 { // every answer arrives, late or not
		if _, err := c.Call(t.Context(), "echo", json.RawMessage("{}"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if s := c.Stats(); s.InFlight != 0 || s.Unknown != 0 || s.Duplicate != 0 {
		t.Errorf("%+v", s)
	}
	time.AfterFunc(5*time.Millisecond, func() { peer.Close() })
	storm(50)
}

// answers is a writer that calls a function for each write.
type answers func(frames []byte)

func (w answers) Write(b []byte) (int, error) { w(b); return len(b), nil }
func (answers) Close() error                  { return nil }

// TestAnswersAreNotHeldUp sends requests within a flood. Held answers must not wait for a pause of the reader.
func TestAnswersAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []time.Time // arrival times of the unanswered requests
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
		c := jsonrpc.NewConn(ndjson.New(io.NopCloser(r), w, ndjson.Options{}), jsonrpc.Options{
			Inline: true,
			Drain:  time.Second,
			Handle: func(_ context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
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

// TestCallsThroughFlood runs single and concurrent callers, which cancel and call again while the peer floods them,
// over real pipes.
func TestCallsThroughFlood(t *testing.T) {
	near, far := pipes(t)
	var peer *jsonrpc.Conn
	ready := make(chan struct{})
	peer = serve(t, far, jsonrpc.Options{Handle: func(ctx context.Context,
		m *jsonrpc.Message) (json.RawMessage, error) {
		<-ready
		for range 200 {
			if err := peer.Notify(ctx, "water", nil); err != nil {
				return nil, err
			}
		}
		return m.Params, nil
	}})
	close(ready)
	c := serve(t, near, jsonrpc.Options{})
	for _, callers := range []int{1, 4, 1} {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for j := range 12 {
					params := fmt.Sprint(100*i + j)
					ctx, cancel := context.WithCancel(t.Context())
					if j%4 == 3 {
						time.AfterFunc(2*jsonrpc.Tick, cancel)
					}
					got, err := c.Call(ctx, "m", json.RawMessage(params), nil)
					if canceled := ctx.Err() != nil && errors.Is(err, context.Canceled); !canceled &&
						(err != nil || string(got) != params) {
						t.Errorf("%s answered with %s, %v", params, got, err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
	}
}
