//go:build unix

package runtime

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// patience bounds every wait of a test. No wait is expected to take that long.
const patience = 60 * time.Second

// meeting is the test's side of the script verb sync.
type meeting struct {
	t        testing.TB
	listener net.Listener
}

func newMeeting(t testing.TB) *meeting {
	dir, err := os.MkdirTemp("", "meet") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.RemoveAll(dir) })
	return &meeting{t, l}
}

func (m *meeting) env() string { return syncVar + "=" + m.listener.Addr().String() }

// await waits until the script is at the step "sync name" and returns a function that lets it continue.
func (m *meeting) await(name string) (goOn func()) {
	m.t.Helper()
	m.listener.(*net.UnixListener).SetDeadline(time.Now().Add(patience))
	conn, err := m.listener.Accept()
	if err != nil {
		m.t.Fatalf("the script did not come to %q: %v", name, err)
	}
	got, _ := bufio.NewReader(conn).ReadString('\n')
	if strings.TrimSpace(got) != name {
		m.t.Fatalf("the script is at %q, want %q", strings.TrimSpace(got), name)
	}
	return func() { fmt.Fprintln(conn); conn.Close() }
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func spec(t testing.TB, script string) Spec {
	path, env := processtest.Script(t, script)
	m := &manifest.Manifest{
		Plugin:    manifest.Plugin{ID: "faulty", Version: "1.0.0"},
		Transport: manifest.Transport{Kind: manifest.KindStdio, Protocol: manifest.ProtocolNative, Command: path},
	}
	o := m.Runtime.Resolve(m.Transport)
	o.StartTimeout, o.ShutdownGrace = patience, patience/4
	return Spec{ID: "faulty", Dir: os.TempDir(), Manifest: m, Options: o, HostVersion: "0.0.1", Env: env}
}

// trial is one run under test.
type trial struct {
	Instance
	t       testing.TB
	ready   chan struct{}
	served  chan error
	cancel  context.CancelFunc
	stopped bool
}

// errTestStops is the cause of the end of a run that a test stops.
var errTestStops = errors.New("the test stops it")

// launch starts a run; the end of the test stops it.
func launch(t testing.TB, s Spec) *trial {
	t.Helper()
	i, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &trial{Instance: i, t: t, ready: make(chan struct{}), served: make(chan error, 1)}
	r.cancel = func() { cancel(errTestStops) }
	go func() { r.served <- i.Serve(ctx, func() { close(r.ready) }) }()
	t.Cleanup(func() { r.stop() })
	return r
}

// start launches a run and waits until it is ready.
func start(t testing.TB, s Spec) *trial {
	t.Helper()
	r := launch(t, s)
	select {
	case <-r.ready:
	case err := <-r.served:
		r.stopped = true
		t.Fatalf("did not get ready: %v", err)
	case <-time.After(patience):
		t.Fatal("neither ready nor ended")
	}
	return r
}

// stop ends the run and returns the result of Serve; a second call returns nil.
func (r *trial) stop() error {
	r.cancel()
	if r.stopped {
		return nil
	}
	r.stopped = true
	select {
	case err := <-r.served:
		return err
	case <-time.After(patience):
		r.t.Error("Serve did not return")
		return nil
	}
}

// end waits until the run ends by itself and checks the kind of the error.
func (r *trial) end(kind protocol.Kind) *protocol.Error {
	r.t.Helper()
	select {
	case err := <-r.served:
		r.stopped = true
		return wantKind(r.t, err, kind)
	case <-time.After(patience):
		r.t.Fatalf("Serve did not return, want %s", kind)
		return nil
	}
}

func (r *trial) request(method, params string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.Call(ctx, &Request{Method: method, Params: json.RawMessage(params)})
}

// callTool calls the tool echo.
func (r *trial) callTool() (json.RawMessage, error) {
	return r.request(protocol.MethodToolsCall, `{"name":"echo","arguments":{"n":12345678901234567890}}`)
}

// future is the outcome of a call in the background.
type future struct {
	raw json.RawMessage
	err error
}

func (r *trial) goCall(ctx context.Context, q *Request) <-chan future {
	c := make(chan future, 1)
	go func() {
		raw, err := r.Call(ctx, q)
		c <- future{raw, err}
	}()
	return c
}

func await[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
	return v
}

func wantKind(t testing.TB, err error, kind protocol.Kind) *protocol.Error {
	t.Helper()
	var fault *protocol.Error
	if !errors.As(err, &fault) || fault.Kind != kind {
		t.Fatalf("error is %v (%T), want kind %s", err, err, kind)
	}
	if fault.Extension != "faulty" {
		t.Errorf("error names %q as the culprit, want faulty: %v", fault.Extension, err)
	}
	return fault
}

func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

// fault prepares a test that breaks an extension: it checks for leaks, and that another extension answers throughout.
func fault(t *testing.T) {
	t.Helper()
	processtest.Leaks(t)
	n := start(t, spec(t, "init echo; echo"))
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		beat := time.NewTicker(2 * time.Millisecond)
		defer beat.Stop()
		for ctx.Err() == nil {
			if _, err := n.callTool(); err != nil {
				result <- err
				return
			}
			select {
			case <-beat.C:
			case <-ctx.Done():
			}
		}
		result <- nil
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-result; err != nil {
			t.Errorf("the neighbour failed: %v", err)
		}
	})
}

func stderrOf(i Instance) string { return strings.Join(i.Info().Stderr, "\n") }

func logTo(s *Spec) *logBuffer {
	var b logBuffer
	s.Logger = slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})).With("extension", s.ID)
	return &b
}

func discarding() *slog.Logger { return slog.New(slog.DiscardHandler) }
