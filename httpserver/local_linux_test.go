package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const (
	nobody      = 65534
	nobodyElse  = 65533
	operatorsIs = "operators-own"
)

func init() {
	verbs["host"], verbs["get"], verbs["fling"] = hostVerb, getVerb, flingVerb
	verbs["escape"], verbs["orphan"], verbs["thread"], verbs["park"] = escapeVerb, orphanVerb, threadVerb, parkVerb
	verbs["idle"] = func(string) { _, _ = io.Copy(io.Discard, os.Stdin) }
}

// hostVerb is a host with an operator's API and no token for clients. It runs the lines of its stdin as children and
// prints the first line of each. One more child runs all the time.
func hostVerb(string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	metrics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := New(Options{Backend: &fake{}, Admin: api, OperatorToken: operatorsIs, Metrics: metrics})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	fmt.Println(l.Addr())
	exe, _ := os.Executable()
	containment := process.Contain("")
	idle, err := process.Start(ctx, process.Spec{Path: exe, Env: processtest.Env("idle"), Containment: containment})
	if err != nil {
		fmt.Println(err)
		return
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(firstLine(containment, exe, lines.Text()))
	}
	_ = idle.Stop(ctx, 0)
	idle.Stdout.Close()
	cancel()
	<-ended
	containment.Close()
}

// firstLine runs a child as the host does, until it has printed a line.
func firstLine(c *process.Containment, exe, script string) string {
	p, err := process.Start(context.Background(),
		process.Spec{Path: exe, Env: append(processtest.Env(script), "PATH="+os.Getenv("PATH")), Containment: c})
	if err != nil {
		return err.Error()
	}
	return processtest.FirstLine(p, p.Stdout)
}

// getVerb makes requests: "ADDRESS TOKEN PATH...". It prints the codes, and the end of the last body. Token "-" means
// none.
func getVerb(args string) {
	words := strings.Fields(args)
	c := http.Client{Transport: &http.Transport{}, Timeout: patience}
	codes, body := []string{}, []byte{}
	for _, path := range words[2:] {
		r, _ := http.NewRequest("GET", "http://"+words[0]+path, nil)
		if words[1] != "-" {
			r.Header.Set("Authorization", "Bearer "+words[1])
		}
		resp, err := c.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		codes = append(codes, fmt.Sprint(resp.StatusCode))
		body, _ = io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
	}
	fmt.Println(strings.Join(codes, " "), strings.ReplaceAll(strings.TrimSpace(string(body)), "\n", " "))
}

// escapeVerb makes a request from a process that has left its session, parents and environment, and whose descriptors
// cannot be seen.
func escapeVerb(args string) {
	cmd := exec.Command("/bin/sh", "-c",
		"exec 3>&1; (EXTHOST_TEST_SCRIPT='orphan "+args+"' setsid "+os.Args[0]+" >&3 &)")
	cmd.Env, cmd.Stdout = []string{"PATH=" + os.Getenv("PATH")}, os.Stdout
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func orphanVerb(args string) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	getVerb(args)
}

// threadVerb makes a request from a thread with its own descriptor table.
func threadVerb(args string) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		fmt.Println(err)
		return
	}
	readCode(sendRaw(args))
}

// parkVerb makes a request, and parks the connection in a message to itself until it is answered: meanwhile no
// process has a descriptor of it.
func parkVerb(args string) {
	fd := sendRaw(args)
	pair, pairErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	events, epollErr := unix.EpollCreate1(0)
	err := errors.Join(pairErr, epollErr)
	if err == nil { // epoll watches the connection also without a descriptor
		err = errors.Join(unix.EpollCtl(events, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}),
			unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0), unix.Close(fd))
	}
	for err == nil {
		if _, err = unix.EpollWait(events, make([]unix.EpollEvent, 1), int(patience.Milliseconds())); !errors.Is(err,
			unix.EINTR) {
			break
		}
		err = nil
	}
	rights := make([]byte, unix.CmsgSpace(4))
	if err == nil {
		_, _, _, _, err = unix.Recvmsg(pair[1], make([]byte, 1), rights, 0)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, _ := unix.ParseSocketControlMessage(rights)
	fds, _ := unix.ParseUnixRights(&messages[0])
	readCode(fds[0])
}

// sendRaw sends a request: "ADDRESS TOKEN PATH". It returns the connection.
func sendRaw(args string) int {
	words := strings.Fields(args)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	at, _ := netip.ParseAddrPort(words[0])
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	}
	if err == nil {
		_, err = unix.Write(fd,
			fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", words[2], words[0],
				words[1]))
	}
	if err != nil {
		fmt.Println(err)
	}
	return fd
}

// readCode prints the code of the answer.
func readCode(fd int) {
	answer := make([]byte, 100)
	n, err := unix.Read(fd, answer)
	fmt.Println(strings.TrimPrefix(strings.Split(string(answer[:max(n, 0)]), "\r\n")[0], "HTTP/1.1 "), err)
}

// flingVerb sends a request and closes the connection.
func flingVerb(addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintf(conn, "GET /metrics HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
	conn.Close()
}

// others returns users, the first of them root. It skips the test unless run by root, who alone can change users.
func others(t *testing.T) (root, first, second processtest.User) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be other users")
	}
	exe := processtest.CopySelf(t)
	return processtest.User{
		Exe: exe,
	}, processtest.User{Exe: exe, ID: nobody}, processtest.User{Exe: exe, ID: nobodyElse}
}

// hostOf starts hostVerb. tell runs a script in one of its children.
func hostOf(t *testing.T, u processtest.User) (addr string, tell func(script string) string) {
	t.Helper()
	d := processtest.Talk(t, u.Command("host"))
	return d.Answer(), d.Tell
}

// Without a token a server on loopback serves its own user and root; others get only its health and
// the status code of its readiness.
func TestOtherUsersNeedAToken(t *testing.T) {
	processtest.Leaks(t)
	root, user, stranger := others(t)
	addr, _ := hostOf(t, user)
	const paths = " /healthz /metrics /readyz /mcp /sse?sessionId=x /x/mcp"
	for name, s := range map[string]processtest.User{"the user": user, "root": root} {
		if got := s.Says(t, "get "+addr+" - /healthz /metrics /readyz"); got != `200 200 200 {"status":"ready"}` {
			t.Errorf("%s: %s", name, got)
		}
	}
	got := stranger.Says(t, "get "+addr+" -"+paths)
	if codes, body, _ := strings.Cut(got, " without"); codes != "200 403 200 403 403 403" ||
		!strings.Contains(body, "server.auth.token_file") {
		t.Errorf("another user: %s", got)
	}
	if got := stranger.Says(t, "get "+addr+" "+operatorsIs+" /metrics"); !strings.HasPrefix(got, "200") {
		t.Errorf("another user who has the operator's token: %s", got)
	}
}

// A server that is open to all local users, or that has a token, does not check users.
func TestOtherUsersWithAToken(t *testing.T) {
	processtest.Leaks(t)
	_, user, _ := others(t)
	open := serve(t, Options{Backend: &fake{}, AnyLocalUser: true}, nil)
	if got := user.Says(t, "get "+open+" - /readyz"); !strings.HasPrefix(got, "200") {
		t.Errorf("with AnyLocalUser: %s", got)
	}
	shut := serve(t, Options{Backend: &fake{}, Token: "clients"}, nil)
	if got := user.Says(t, "get "+shut+" clients /readyz"); !strings.HasPrefix(got, "200") {
		t.Errorf("with a token: %s", got)
	}
	if got := user.Says(t, "get "+shut+" - /mcp"); !strings.HasPrefix(got, "401") {
		t.Errorf("without the token: %s", got)
	}
}

// heldListener accepts once it is released.
type heldListener struct {
	net.Listener
	release chan struct{}
}

func (l *heldListener) Accept() (net.Conn, error) {
	<-l.release
	return l.Listener.Accept()
}

// A request whose sender has closed the connection is attributed to nobody; the kernel would say root.
func TestClosedConnectionsAreNobodys(t *testing.T) {
	processtest.Leaks(t)
	_, user, _ := others(t)
	logged := make(chan string, 10)
	release := make(chan struct{})
	reached := make(chan struct{}, 1)
	addr := serve(t, Options{
		Backend: &fake{},
		Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }),
		Logger:  slog.New(slog.NewTextHandler(lineWriter(logged), nil)),
	},
		func(l net.Listener) net.Listener { return &heldListener{l, release} })
	if got := user.Says(t, "fling "+addr); got != "" {
		t.Fatal(got)
	}
	close(release)
	select {
	case line := <-logged:
		if !strings.Contains(line, "was kept from the server") {
			t.Error(line)
		}
	case <-reached:
		t.Error("the request was answered")
	}
}

// lineWriter sends each write to a channel.
type lineWriter chan string

func (l lineWriter) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// The operator's token is useless to the host's own children.
func TestChildrenAreNoOperators(t *testing.T) {
	processtest.Leaks(t)
	processtest.Needs(t, "setsid")
	root, user, _ := others(t)
	for name, s := range map[string]processtest.User{"as root": root, "as an ordinary user": user} {
		t.Run(name, func(t *testing.T) {
			addr, tell := hostOf(t, s)
			request := " " + addr + " " + operatorsIs + " " + apiRoot + "/status"
			for _, script := range []string{"get", "orphan", "escape", "thread", "park"} {
				if got := tell(script + request); !strings.HasPrefix(got, "403") {
					t.Errorf("a child, %s: %s", script, got)
				}
			}
			if got := tell("get " + addr + " - /readyz"); !strings.HasPrefix(got, "200") {
				t.Errorf("a child without that token: %s", got)
			}
			for _, by := range slices.Compact([]processtest.User{s, root}) {
				if got := by.Says(t, "get"+request); !strings.HasPrefix(got, "204") {
					t.Errorf("the user %d: %s", by.ID, got)
				}
				if got := by.Says(t, "orphan"+request); !strings.HasPrefix(got, "204") {
					t.Errorf("the user %d, who hides: %s", by.ID, got)
				}
			}
		})
	}
}
