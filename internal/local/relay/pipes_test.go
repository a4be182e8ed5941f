//go:build unix

package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// pairs returns a function that returns connected socket pairs.
func pairs(t *testing.T) (connect func() (relay, host *net.UnixConn)) {
	t.Helper()
	l := listen(t)
	return func() (relay, host *net.UnixConn) {
		relay, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		if host, err = l.AcceptUnix(); err != nil {
			t.Error(err)
		}
		t.Cleanup(func() { relay.Close(); host.Close() })
		return relay, host
	}
}

// TestPipes: with pipes too, each call in flight when a host ends gets one error, and the next host gets the
// session. When the client leaves, the host's input ends, and responses still pass until the host ends.
func TestPipes(t *testing.T) {
	processtest.Leaks(t)
	type end struct {
		in  *bufio.Reader
		out io.WriteCloser
		r   io.Closer
	}
	connect, hosts, ended := pairs(t), make(chan *net.UnixConn, 4), make(chan error, 1)
	clientR, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, clientW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	_ = out.SetReadDeadline(time.Now().Add(patience))
	go func() {
		ended <- Run(t.Context(), Options{
			In:    clientR,
			Out:   clientW,
			Pipes: true,
			Connect: func(context.Context) (*net.UnixConn, error) {
				relay, host := connect()
				hosts <- host
				return relay, nil
			},
		})
	}()
	host := func() end {
		r, w, err := takePipes(<-hosts, patience)
		if err != nil || r == nil {
			t.Fatalf("Take: %v, %v", r, err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		_ = r.(*os.File).SetReadDeadline(time.Now().Add(patience))
		return end{bufio.NewReader(r), w, r}
	}
	say := func(w io.Writer, text string) {
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			t.Error(err)
		}
	}
	wants := func(r *bufio.Reader, want string) {
		t.Helper()
		if line, err := r.ReadString('\n'); err != nil || line != want+"\n" {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
	}
	const initialize, initialized = `{"id":0,"method":"initialize","params":{}}`, `{"id":0,"result":{}}`
	answers, a := bufio.NewReader(out), host()
	say(in, initialize)
	wants(a.in, initialize)
	say(a.out, initialized)
	wants(answers, initialized)
	say(in, `{"id":1,"method":"ping"}`)
	wants(a.in, `{"id":1,"method":"ping"}`)
	a.r.Close()
	a.out.Close()
	var m struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if line, err := answers.ReadString('\n'); err != nil || json.Unmarshal([]byte(line), &m) != nil ||
		string(m.ID) != "1" || m.Error.Code != -32030 {
		t.Fatalf("a call in flight is answered %q, %v", line, err)
	}
	say(in, `{"id":2,"method":"ping"}`)
	b := host()
	wants(b.in, initialize)
	say(b.out, initialized)
	wants(b.in, `{"id":2,"method":"ping"}`)
	in.Close()
	if _, err := b.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end of the client: %v", err)
	}
	say(b.out, `{"id":2,"result":{}}`)
	wants(answers, `{"id":2,"result":{}}`)
	b.out.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestTake: fewer than two descriptors are refused, and all are closed. A relay that is gone is not an error.
func TestTake(t *testing.T) {
	processtest.Leaks(t)
	connect := pairs(t)
	for n, want := range []string{"it sends 0 pipes", "it sends 1 pipes", ""} {
		relay, host := connect()
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
		in, out, err := takePipes(host, patience)
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
	relay, host := connect()
	relay.Close()
	if in, _, err := takePipes(host, patience); in != nil || err != nil {
		t.Errorf("from a relay that has gone: %v, %v", in, err)
	}
}
