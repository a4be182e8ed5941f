package httpserver

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// wire is one connection of a client.
type wire struct {
	net.Conn
	read *bufio.Reader
}

func dial(t *testing.T, addr string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &wire{c, bufio.NewReader(c)}
}

// ask makes a request and returns the status code, or 0 if the server has closed the connection.
func (w *wire) ask(t *testing.T, path, token string) int {
	t.Helper()
	head := "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	_, _ = io.WriteString(w, head+"\r\n") // the read below reports an error
	r, err := http.ReadResponse(w.read, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return r.StatusCode
}

// awaitClose waits until the server has closed the connection.
func (w *wire) awaitClose(t *testing.T, what string) {
	t.Helper()
	if _, err := w.read.ReadByte(); err == nil || errors.Is(err, net.ErrClosed) || isTimeout(err) {
		t.Errorf("%s is open: %v", what, err)
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// Idle connections from addresses without a valid token are closed for new ones when the server is full;
// authenticated connections stay open.
func TestIdleConnectionsGiveWay(t *testing.T) {
	processtest.Leaks(t)
	addr := serve(t, Options{Backend: newFake(), Token: "clients", MaxConns: 6, MaxStrangers: 6}, nil)
	first := dial(t, addr)
	if code := first.ask(t, "/readyz", "clients"); code != http.StatusOK {
		t.Fatalf("the first client: %d", code)
	}
	var strangers []*wire
	for n := range 5 { // one of them shows a wrong token, one sends nothing
		w := dial(t, addr)
		strangers = append(strangers, w)
		path, token, want := "/healthz", "", http.StatusOK
		if n == 2 {
			path, token, want = "/readyz", "wrong", http.StatusUnauthorized
		}
		if n == 4 {
			_, _ = io.WriteString(w, "GET /healthz HT")
		} else if code := w.ask(t, path, token); code != want {
			t.Fatalf("stranger %d: %d", n, code)
		}
	}
	for n := range 5 {
		late := dial(t, addr)
		if code := late.ask(t, "/readyz", "clients"); code != http.StatusOK {
			t.Fatalf("client %d after the server was full: %d", n, code)
		}
		strangers[n].awaitClose(t, "the stranger who waited longest")
	}
	if code := first.ask(t, "/readyz", "clients"); code != http.StatusOK {
		t.Errorf("the first client was cut off: %d", code)
	}
}

// An address without a valid token may use only a share of the connections; beyond it, a new connection replaces the
// oldest one of that address.
func TestStrangersHaveAShare(t *testing.T) {
	processtest.Leaks(t)
	addr := serve(t, Options{Backend: newFake(), Token: "clients", MaxConns: 100, MaxStrangers: 2}, nil)
	var all []*wire
	for n := range 5 {
		all = append(all, dial(t, addr))
		if code := all[n].ask(t, "/healthz", ""); code != http.StatusOK {
			t.Fatalf("stranger %d: %d", n, code)
		}
	}
	for _, w := range all[:3] {
		w.awaitClose(t, "a connection beyond the share")
	}
	for n, w := range all[3:] {
		if code := w.ask(t, "/readyz", "clients"); code != http.StatusOK { // no longer a stranger
			t.Errorf("connection %d within the share: %d", n, code)
		}
	}
	for n := range 2 {
		if code := dial(t, addr).ask(t, "/healthz", ""); code != http.StatusOK {
			t.Errorf("stranger %d beside clients: %d", n, code)
		}
	}
	if code := all[3].ask(t, "/readyz", "clients"); code != http.StatusOK {
		t.Errorf("a client was cut off for strangers: %d", code)
	}
}

// Running requests are never cut off: if all connections are busy, the new one is refused.
func TestRunningRequestsStay(t *testing.T) {
	processtest.Leaks(t)
	addr := serve(t, Options{Backend: newFake(), MaxConns: 1}, nil)
	stream := dial(t, addr)
	_, _ = io.WriteString(stream, "GET /sse HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line, err := stream.read.ReadString('\n'); err != nil {
		t.Fatalf("the stream: %q, %v", line, err)
	}
	if code := dial(t, addr).ask(t, "/healthz", ""); code != 0 {
		t.Errorf("a connection beyond the bound: %d", code)
	}
	stream.Close()
}

// layered is a connection like one of TLS, whose Close first notifies a peer that does not read.
type layered struct {
	net.Conn
	stuck chan struct{}
}

func (l *layered) NetConn() net.Conn { return l.Conn }
func (l *layered) Close() error      { <-l.stuck; return l.Conn.Close() }

// Closing a connection for a new one must not block the accept loop.
func TestGivingWayTellsNobody(t *testing.T) {
	table := newConnTable(connBounds{max: 1, strangers: 1, strangerIdle: time.Minute, full: func() {}})
	stuck := make(chan struct{})
	ends := make([]net.Conn, 2)
	for n := range ends {
		near, far := net.Pipe()
		ends[n] = far
		defer near.Close()
		entered := make(chan struct{})
		go func() { defer close(entered); table.context(context.Background(), &layered{near, stuck}) }()
		select {
		case <-entered:
		case <-time.After(time.Minute):
			t.Error("a new connection waits for the one that gives way")
			close(stuck)
			<-entered
			return
		}
	}
	if _, err := ends[0].Read(make([]byte, 1)); err == nil {
		t.Error("the first connection is open")
	}
}
