package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestClientAtTheEnd: a client that connects when the host's idle timeout fires is either refused or kept, and a
// kept client keeps the host running.
func TestClientAtTheEnd(t *testing.T) {
	for range 200 { // the scheduler decides the order
		synctest.Test(t, func(t *testing.T) {
			h := NewHost(HostOptions{
				Log:        slog.New(slog.DiscardHandler),
				Variables:  func() []string { return nil },
				Background: true,
				IdleExit:   time.Second,
			})
			h.served = true
			ended := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { h.idle(ctx); close(ended) }()
			time.Sleep(time.Second) // the timer fires now
			c := &client{}
			a := h.admit(ctx, &request{}, c)
			synctest.Wait()
			select {
			case <-ended:
				if a.OK {
					t.Error("the host ends with a client")
				}
			default:
				if !a.OK {
					t.Errorf("the host stays and refuses the client: %s", a.Refused)
				}
			}
			cancel()
			<-ended
		})
	}
}

// TestSilentHostIsAskedOnce: a stopped host delays a client once, not on every search.
func TestSilentHostIsAskedOnce(t *testing.T) {
	processtest.Leaks(t)
	defer func(before time.Duration) { helloTimeout = before }(helloTimeout)
	helloTimeout = 50 * time.Millisecond
	dir, err := os.MkdirTemp("", "x") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var sockets []*net.UnixListener
	for _, name := range []string{"o", "c"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		sockets = append(sockets, l)
	}
	lock := fmt.Sprintf(`{"pid":1,"socket":%q,"clients":%q}`, sockets[0].Addr(), sockets[1].Addr())
	if err := os.WriteFile(filepath.Join(dir, ".exthost.lock"), []byte(lock), 0o600); err != nil {
		t.Fatal(err)
	}
	fault := &Fault{Text: "the host does not start"}
	c := &Client{StateDir: dir, Start: func(context.Context, *os.File) error { return fault }}
	if _, err := c.Connect(t.Context()); err != fault {
		t.Errorf("Connect: %v, want %v", err, fault)
	}
	marker, err := net.Dial("unix", sockets[1].Addr().String()) // comes after everything Connect made
	if err != nil {
		t.Fatal(err)
	}
	defer marker.Close()
	if _, err := marker.Write([]byte("m")); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for last := false; !last; asked++ {
		conn, err := sockets[1].Accept()
		if err != nil {
			t.Fatal(err)
		}
		n, _ := conn.Read(make([]byte, 1))
		last = n == 1
		conn.Close()
	}
	asked--
	if asked != 1 {
		t.Errorf("the silent host is asked %d times", asked)
	}
}

// TestTurnOutlivesItsRelay: while a host starts, no other host is started, even if the relay that started it has
// ended.
func TestTurnOutlivesItsRelay(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	fifo := filepath.Join(dir, "go")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip("mkfifo is missing: the end of a relay is not tested")
	}
	turn, err := daemon.Exclusive(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	end() // ends the relay
	launcher := []string{"sh", "-c", `exec 3<&0; { read line; echo "$line"; } <"$0" 4<&3 3<&- & `, fifo}
	if err := Start(ctx, launcher, turn, filepath.Join(dir, "log")); err == nil {
		t.Error("a relay that has ended has a host")
	}
	turn.Close()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if next, err := daemon.Exclusive(short, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the next relay has the turn while the host starts: %v", err)
		next.Close()
	}
	if err := os.WriteFile(fifo, []byte("x\n"), 0); err != nil { // the host has started
		t.Fatal(err)
	}
	next, err := daemon.Exclusive(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
}

// refusing is a listener that has no descriptor for a connection.
type refusing struct {
	net.Listener
	attempts chan struct{}
}

// Accept implements net.Listener.
func (l *refusing) Accept() (net.Conn, error) {
	l.attempts <- struct{}{}
	return nil, errors.New("too many open files")
}

// Close implements net.Listener.
func (*refusing) Close() error { return nil }

// TestRefusedClientsAreLoggedOnce: while nobody can be accepted, the log says so once, and not ten times a second.
func TestRefusedClientsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		h := NewHost(HostOptions{Log: slog.New(slog.NewTextHandler(&text, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		l, ended := &refusing{attempts: make(chan struct{})}, make(chan struct{})
		go func() { h.Run(ctx, l); close(ended) }()
		for range 5 {
			<-l.attempts
		}
		cancel()
		select {
		case <-l.attempts:
			<-ended
		case <-ended:
		}
		if n := bytes.Count(text.Bytes(), []byte("could not be accepted")); n != 1 {
			t.Errorf("%d lines:\n%s", n, &text)
		}
	})
}
