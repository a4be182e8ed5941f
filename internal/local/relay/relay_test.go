package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/testing/processtest"
)

const patience = 60 * time.Second

// scripted is a relay between a client and hosts played by the test.
type scripted struct {
	t      *testing.T
	in     *os.File // to the relay
	out    *bufio.Reader
	hosts  chan *net.UnixConn // one per Connect
	failed chan error         // error for Connect to return instead
	ended  chan error
}

// listen listens on a socket until the test ends.
func listen(t *testing.T) *net.UnixListener {
	t.Helper()
	dir, err := os.MkdirTemp("", "x") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func relayed(t *testing.T) *scripted {
	t.Helper()
	processtest.Leaks(t)
	l := listen(t)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{
		t:      t,
		in:     inW,
		out:    bufio.NewReaderSize(outR, 1<<20),
		hosts:  make(chan *net.UnixConn, 4),
		failed: make(chan error, 4),
		ended:  make(chan error, 1),
	}
	connect := func(ctx context.Context) (*net.UnixConn, error) {
		select {
		case err := <-s.failed:
			return nil, err
		default:
		}
		conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
		if err != nil {
			return nil, err
		}
		host, err := l.AcceptUnix()
		s.hosts <- host
		return conn, err
	}
	go func() { s.ended <- Run(t.Context(), Options{In: inR, Out: outW, Connect: connect}) }()
	t.Cleanup(func() {
		inW.Close()
		outR.Close()
	})
	_ = outR.SetReadDeadline(time.Now().Add(patience))
	return s
}

// peer is a side played by the test.
type peer struct {
	t    *testing.T
	conn *net.UnixConn
	r    *bufio.Reader
}

// host returns the next host that the relay connects to.
func (s *scripted) host() *peer {
	s.t.Helper()
	select {
	case conn := <-s.hosts:
		_ = conn.SetDeadline(time.Now().Add(patience))
		s.t.Cleanup(func() { conn.Close() })
		return &peer{s.t, conn, bufio.NewReaderSize(conn, 1<<20)}
	case <-time.After(patience):
		s.t.Fatal("the relay does not connect")
		return nil
	}
}

func (p *peer) say(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, text); err != nil {
		p.t.Error(err)
	}
}

func (p *peer) wants(line string) {
	p.t.Helper()
	if got, err := p.r.ReadString('\n'); err != nil || got != line+"\n" {
		p.t.Fatalf("the host reads %q, %v, want %q", got, err, line)
	}
}

func (s *scripted) say(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, text); err != nil {
		s.t.Error(err)
	}
}

func (s *scripted) wants(line string) {
	s.t.Helper()
	if got, err := s.out.ReadString('\n'); err != nil || got != line+"\n" {
		s.t.Fatalf("the client reads %q, %v, want %q", got, err, line)
	}
}

// wantsError reads an error for the request with this id.
func (s *scripted) wantsError(id string, code int) {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	var m struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if err != nil || json.Unmarshal([]byte(line), &m) != nil || string(m.ID) != id || m.Error.Code != code {
		s.t.Fatalf("the client reads %q, %v, want an error %d for %s", line, err, code, id)
	}
}

// leave ends the client, and then host, if any.
func (s *scripted) leave(host *peer) {
	s.t.Helper()
	s.in.Close()
	if host != nil {
		if _, err := host.r.ReadByte(); !errors.Is(err, io.EOF) {
			s.t.Errorf("the host reads on: %v", err)
		}
		host.conn.Close()
	}
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("the relay ends with %v", err)
		}
	case <-time.After(patience):
		s.t.Fatal("the relay does not end")
	}
}

// TestSessionIsOpenedAgain: a new host receives initialize, the log level and subscriptions. The client sees no
// second response, and requests of the old host are cancelled.
func TestSessionIsOpenedAgain(t *testing.T) {
	s := relayed(t)
	a := s.host()
	const initialize, ready = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`
	s.say(initialize + "\n")
	a.wants(initialize)
	a.say(`{"jsonrpc":"2.0","id":0,"result":{}}` + "\n")
	s.wants(`{"jsonrpc":"2.0","id":0,"result":{}}`)
	for i, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/subscribe","params":{"uri":"b"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/unsubscribe","params":{"uri":"a"}}`,
	} {
		if i == 0 {
			s.say(ready + "\n")
			a.wants(ready)
		}
		s.say(line + "\n")
		a.wants(line)
		a.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", i+1))
		s.wants(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i+1))
	}
	a.say(`{"jsonrpc":"2.0","id":77,"method":"roots/list"}` + "\n" + `{"jsonrpc":"2.0","id":78,"method":"roots/list"}` +
		"\n")
	s.wants(`{"jsonrpc":"2.0","id":77,"method":"roots/list"}`)
	s.wants(`{"jsonrpc":"2.0","id":78,"method":"roots/list"}`)
	s.say(`{"jsonrpc":"2.0","id":77,"result":{}}` + "\n")
	a.wants(`{"jsonrpc":"2.0","id":77,"result":{}}`)
	s.say(`{"jsonrpc":"2.0","id":"x","method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":"y","method":"ping"}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"y"}}` + "\n")
	for range 3 {
		_, _ = a.r.ReadString('\n')
	}
	a.conn.Close()
	s.wantsError(`"x"`, -32030)
	s.wants(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":78,"reason":"the host that asked has ended"}}`)

	s.say(`{"jsonrpc":"2.0","id":5,"method":"ping"}` + "\n")
	b := s.host()
	b.wants(initialize)
	b.say(`{"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{"listChanged":true}}}}` + "\n")
	b.wants(ready)
	b.wants(`{"jsonrpc":"2.0","id":"exthost-relay-0","method":"logging/setLevel","params":{"level":"info"}}`)
	b.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}` + "\n" +
		`{"jsonrpc":"2.0","id":"exthost-relay-0","result":{}}` + "\n")
	b.wants(`{"jsonrpc":"2.0","id":"exthost-relay-1","method":"resources/subscribe","params":{"uri":"b"}}`)
	b.say(`{"jsonrpc":"2.0","id":"exthost-relay-1","error":{"code":-32002,"message":"gone"}}` + "\n")
	b.wants(`{"jsonrpc":"2.0","id":5,"method":"ping"}`)
	s.wants(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`)
	s.wants(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	b.say(`{"jsonrpc":"2.0","id":5,"result":{}}` + "\n")
	s.wants(`{"jsonrpc":"2.0","id":5,"result":{}}`)
	s.leave(b)
}

// TestCutLines: if a host ends within a line, a short line is dropped. A long line is terminated, and its call gets
// an error.
func TestCutLines(t *testing.T) {
	s := relayed(t)
	a := s.host()
	s.say(`{"id":1,"method":"ping"}` + "\n")
	a.wants(`{"id":1,"method":"ping"}`)
	a.say(`{"id":1,"resu`)
	a.conn.Close()
	s.wantsError("1", -32030)

	s.say(`{"id":2,"method":"ping"}` + "\n")
	b := s.host()
	b.wants(`{"id":2,"method":"ping"}`)
	long := `{"id":2,"result":"` + strings.Repeat("x", 2*maxHeld)
	go func() {
		b.say(long)
		b.conn.Close()
	}()
	s.wants(long)
	s.wantsError("2", -32030)
	s.leave(nil)
}

// TestRequestCutByTheEnd: if a host ends within a request, no other host gets the rest.
func TestRequestCutByTheEnd(t *testing.T) {
	s := relayed(t)
	a := s.host()
	long := strings.Repeat("x", 2*maxHeld)
	begun := make(chan struct{})
	go func() { s.say(`{"method":"ping","params":{"a":"` + long); close(begun) }()
	if _, err := io.CopyN(io.Discard, a.r, maxHeld); err != nil {
		t.Fatal(err)
	}
	a.conn.Close()
	<-begun
	s.say(`"},"id":1}` + "\n")
	s.wantsError("1", -32030)
	s.say(`{"id":2,"method":"ping"}` + "\n")
	b := s.host()
	b.wants(`{"id":2,"method":"ping"}`)
	s.leave(b)
}

// TestRequestTooLong: only the overlong request is refused; the session and other requests continue.
func TestRequestTooLong(t *testing.T) {
	s := relayed(t)
	a := s.host()
	s.say(`{"id":1,"method":"ping"}` + "\n")
	a.wants(`{"id":1,"method":"ping"}`)
	drained := make(chan int64)
	go func() {
		line, _ := a.r.ReadBytes('\n')
		drained <- int64(len(line))
	}()
	go s.say(`{"method":"ping","params":{"a":"` + strings.Repeat("x",
		MaxLine) + `"},"id":2}` + "\n" + `{"id":3,"method":"ping"}` + "\n")
	s.wantsError("2", -32011)
	if n := <-drained; n > MaxLine+1 {
		t.Errorf("the host is sent a line of %d bytes", n)
	}
	a.wants(`{"id":3,"method":"ping"}`)
	a.say(`{"id":1,"result":{}}` + "\n")
	s.wants(`{"id":1,"result":{}}`)
	s.leave(a)
}

// TestRequestBegunWithoutHost: if a request started while no host was reachable, a later host does not get the
// rest.
func TestRequestBegunWithoutHost(t *testing.T) {
	s := relayed(t)
	a := s.host()
	s.say(`{"id":0,"method":"ping"}` + "\n")
	a.wants(`{"id":0,"method":"ping"}`)
	a.conn.Close()
	s.wantsError("0", -32030)
	s.failed <- &Fault{Text: "the configuration is broken"}
	go s.say(`{"method":"ping","params":{"a":"` + strings.Repeat("x",
		2*maxHeld) + `"},"id":1}` + "\n" + `{"id":2,"method":"ping"}` + "\n")
	s.wantsError("1", -32018)
	b := s.host()
	b.wants(`{"id":2,"method":"ping"}`)
	s.leave(b)
}

// deaf is a connection to an ended host that has not been read to its end yet.
type deaf struct{ written chan struct{} }

func (d deaf) Read([]byte) (int, error)    { return 0, io.EOF }
func (d deaf) Write([]byte) (int, error)   { close(d.written); return 0, syscall.EPIPE }
func (d deaf) Close() error                { return nil }
func (d deaf) CloseWrite() error           { return nil }
func (d deaf) SetDeadline(time.Time) error { return nil }

// TestRequestAfterTheEnd: a request that an ended host did not receive goes to the next host.
func TestRequestAfterTheEnd(t *testing.T) {
	l := listen(t)
	var out bytes.Buffer
	r := &relay{ctx: t.Context(), out: output{w: &out}, broken: make(chan error, 1), table: newTable()}
	next := make(chan *net.UnixConn, 1)
	r.connect = func(context.Context) (*net.UnixConn, error) {
		conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
		if err == nil {
			host, _ := l.AcceptUnix()
			next <- host
		}
		return conn, err
	}
	ended := &link{conn: deaf{make(chan struct{})}, lost: make(chan struct{})}
	r.link = ended
	go func() {
		<-ended.conn.(deaf).written
		r.end(ended)
	}()
	const request = `{"id":1,"method":"ping"}` + "\n"
	if _, err := r.forward([]byte(request), nil); err != nil {
		t.Fatal(err)
	}
	r.out.mu.Lock()
	said := out.String()
	r.out.mu.Unlock()
	if said != "" {
		t.Fatalf("the client reads %s", said)
	}
	host, now := <-next, r.current()
	_ = host.SetDeadline(time.Now().Add(patience))
	if got, err := bufio.NewReader(host).ReadString('\n'); got != request {
		t.Errorf("the next host reads %q, %v", got, err)
	}
	_ = host.Close()
	<-now.lost
}

// TestEachHostEndsAtOnce: if every host ends at once, requests are refused, and the relay ends with its client.
func TestEachHostEndsAtOnce(t *testing.T) {
	processtest.Leaks(t)
	l := listen(t)
	clientR, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, clientW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			In:  clientR,
			Out: clientW,
			Connect: func(context.Context) (*net.UnixConn, error) {
				conn, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
				if err != nil {
					return nil, err
				}
				host, err := l.AcceptUnix()
				return conn, errors.Join(err, host.Close())
			},
		})
	}()
	s := &scripted{t: t, in: in, out: bufio.NewReader(out), ended: ended}
	s.say(`{"id":1,"method":"ping"}` + "\n")
	s.wantsError("1", -32018)
	s.leave(nil)
	out.Close()
}

// TestLeaveStoppedHost: a relay does not outlive its client if the host does not end the session.
func TestLeaveStoppedHost(t *testing.T) {
	defer func(before time.Duration) { leaveTimeout = before }(leaveTimeout)
	leaveTimeout = 50 * time.Millisecond
	s := relayed(t)
	s.host()
	s.leave(nil)
}

// TestNoHost: without a host, each request gets the reason, and the next one tries again.
func TestNoHost(t *testing.T) {
	s := relayed(t)
	a := s.host()
	a.conn.Close()
	s.failed <- &Fault{Text: "the configuration is broken"}
	s.say(`{"id":1,"method":"ping"}` + "\n" + `{"method":"notifications/x"}` + "\n" + `{"id":2,"method":"ping"}` + "\n")
	// The relay may notice the host's end only after passing these requests on. It then answers them in any order.
	answered := map[string]bool{}
	for range 2 {
		var m struct {
			ID    json.RawMessage
			Error json.RawMessage
		}
		line, err := s.out.ReadString('\n')
		if err != nil || json.Unmarshal([]byte(line), &m) != nil || m.Error == nil {
			t.Fatalf("%q, %v", line, err)
		}
		answered[string(m.ID)] = true
	}
	if diff := cmp.Diff(map[string]bool{"1": true, "2": true}, answered); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	for len(s.failed) > 0 {
		s.say(`{"id":3,"method":"ping"}` + "\n")
		s.wantsError("3", -32018)
	}
	s.say(`{"id":4,"method":"ping"}` + "\n")
	b := s.host()
	b.wants(`{"id":4,"method":"ping"}`)
	s.leave(b)
}

func TestEnvelope(t *testing.T) {
	for text, want := range map[string]envelope{
		`{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"id":7,"method":"x"}}`: {
			id:     "1",
			method: "a/b",
		},
		` { "params" : { "a" : [ { "id" : 2 } , "\"}" ] } , "method" : "a\/b" , "id" : "x\"y" } `: {
			id:     `"x\"y"`,
			method: "a/b",
		},
		`{"id":null,"error":{"id":3}}`: {
			failed: true,
		},
		`{"id":-1.5e3,"result":{"error":1,"method":"x"}}`: {
			id: "-1.5e3",
		},
		`{"id":1,"error":{"code":1}}`: {
			id:     "1",
			failed: true,
		},
		`{"id":"` + strings.Repeat("a", maxValue) + `","method":"x"}`: {
			method: "x",
		}, // an id over maxValue, which could not be answered
		`{"method":"notifications/cancelled","params":{"x":{"requestId":1},"requestId":"r","y":[]}}`: {
			method:  "notifications/cancelled",
			cancels: `"r"`,
		},
		`{"method":"notifications/cancelled","other":{"requestId":1},"params":{"reason":"x","requestId":2}}`: {
			method:  "notifications/cancelled",
			cancels: "2",
		},
		`[{"id":1,"method":"a"}]`: {},
		`"id":1`:                  {},
		``:                        {},
	} {
		for _, size := range []int{1, 3, len(text) + 1} { // also in pieces
			var s scanner
			rest, ended := text+"\n", false
			for len(rest) > 0 {
				n := min(size, len(rest))
				var read int
				read, ended = s.scan([]byte(rest[:n]))
				rest = rest[read:]
			}
			if diff := cmp.Diff(want, s.env, cmp.AllowUnexported(envelope{})); diff != "" || !ended {
				t.Errorf("%s in pieces of %d: ended %v (-want +got):\n%s", text, size, ended, diff)
			}
		}
	}
}

// FuzzEnvelope compares ids and methods with those of a JSON decoder.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a\\","method":"x","params":{"requestId":[1]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var members map[string]json.RawMessage
		if strings.ContainsAny(string(text), "\n\\") || json.Unmarshal(text, &members) != nil || members == nil {
			return
		}
		var s scanner
		if n, ended := s.scan(append(text, '\n')); !ended || n != len(text)+1 {
			t.Fatalf("%q ended %v after %d bytes", text, ended, n)
		}
		id := string(members["id"])
		if id != "" && id != "null" && id[0] != '{' && id[0] != '[' && len(id) < maxValue && s.env.id != id {
			t.Errorf("%q: id %q, want %q", text, s.env.id, id)
		}
	})
}
