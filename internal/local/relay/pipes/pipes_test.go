//go:build unix

package pipes_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/local/relay/pipes"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const patience = 60 * time.Second

// connected returns a connected pair of sockets.
func connected(t *testing.T) (relay, host *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends []*net.UnixConn
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		ends = append(ends, c.(*net.UnixConn))
	}
	return ends[0], ends[1]
}

// TestTake: fewer than two descriptors are refused, and all are closed. A relay that is gone is not an error.
func TestTake(t *testing.T) {
	processtest.Leaks(t)
	for n, want := range []string{"it sends 0 pipes", "it sends 1 pipes", ""} {
		relay, host := connected(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		var rights []byte
		if n > 0 {
			rights = unix.UnixRights([]int{int(w.Fd()), int(w.Fd())}[:n]...)
		}
		if _, _, err := relay.WriteMsgUnix([]byte{'\n'}, rights, nil); err != nil {
			t.Fatal(err)
		}
		w.Close()
		in, out, err := pipes.Take(host, patience)
		if want == "" {
			if err != nil || in.Close() != nil || out.Close() != nil {
				t.Errorf("%d descriptors: %v", n, err)
			}
		} else if in != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d descriptors: %v, %v, want %s", n, in, err, want)
		}
		_ = r.SetReadDeadline(time.Now().Add(patience))
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%d descriptors: one is still open: %v", n, err)
		}
		r.Close()
	}
	relay, host := connected(t)
	relay.Close()
	if in, _, err := pipes.Take(host, patience); in != nil || err != nil {
		t.Errorf("from a relay that has gone: %v, %v", in, err)
	}
}
