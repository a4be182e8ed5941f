package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// patience bounds every wait in the tests. No test depends on how long a wait takes.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(processtest.ScriptVar) != "" {
		processtest.Main(m, verbs)
	}
	code := processtest.Sharded(m, "TestWhoMayReachWhat").Run()
	if left := leftBehind(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind returns the stacks of this project's goroutines that still run.
func leftBehind() string {
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var ours []string
		buf := make([]byte, 1<<20)
		for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "exthost/") && !strings.Contains(stack, "leftBehind") {
				ours = append(ours, stack)
			}
		}
		if len(ours) == 0 {
			return ""
		}
		select {
		case <-deadline:
			return strings.Join(ours, "\n\n")
		case <-tick.C:
		}
	}
}

// fake is a backend with two tools: one answers, one hangs until it is cancelled.
type fake struct {
	reached atomic.Int64 // requests and sessions that reached the backend
	callers chan string
	hanging chan struct{}
	finish  chan struct{} // lets a hanging call finish
}

func newFake() *fake {
	return &fake{callers: make(chan string, 64), hanging: make(chan struct{}, 64), finish: make(chan struct{})}
}

func (f *fake) Attach(context.Context, *protocol.Session) error {
	f.reached.Add(1)
	return nil
}

func (f *fake) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	f.reached.Add(1)
	f.callers <- c.Session.Caller
	if strings.Contains(string(c.Params), `"hang"`) {
		f.hanging <- struct{}{}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.finish:
		}
	}
	return json.RawMessage(`{"content":[]}`), nil
}

// hang starts a call that hangs and returns once the backend has it. answer receives the body of its answer.
func (f *fake) hang(t *testing.T, url string, h http.Header) (answer <-chan string) {
	t.Helper()
	answered := make(chan string, 1)
	go func() {
		r := send(t, http.MethodPost, url, h, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hang"}}`)
		body, _ := io.ReadAll(r.Body)
		answered <- string(body)
	}()
	get(t, f.hanging, "the call")
	return answered
}

// get takes one value from c, or fails the test.
func get[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// abroad is a listener with an address that other machines can reach.
type abroad struct{ net.Listener }

func (abroad) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7800} }

// serve runs a server until the test ends and returns its address.
func serve(t testing.TB, o Options, wrap func(net.Listener) net.Listener) string {
	t.Helper()
	return serveAs(t, New(o), wrap)
}

// serveAs is serve for an existing server.
func serveAs(t testing.TB, s *Server, wrap func(net.Listener) net.Listener) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if wrap != nil {
		l = wrap(l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		if err := get(t, ended, "Serve to return"); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return addr
}

var client = &http.Client{Transport: &http.Transport{}, Timeout: patience}

// send sends a request with the given headers, which may include Host.
func send(t testing.TB, method, url string, h http.Header, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for name, values := range h {
		r.Header[name] = values
	}
	if host := h.Get("Host"); host != "" {
		r.Host = host
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

var errNotReady = errors.New("extension weather is still starting")
