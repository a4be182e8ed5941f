package link

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const serverVariable = "EXTHOST_TEST_NATS_SERVER"

// TestMain runs the tests, or in a process that a test has started a server until its stdin ends.
func TestMain(m *testing.M) {
	text := os.Getenv(serverVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var spec serverSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	s, err := server.NewServer(spec.options())
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server is not ready")
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
}

// serverSpec is a server of the tests.
type serverSpec struct {
	Port, ClusterPort int
	Routes            []int
	MaxPayload        int32
	Password          string   // of user "node"; "" is without users
	Publish           []string // with Password: what the user may do
	Subscribe         []string
}

func (s serverSpec) options() *server.Options {
	o := &server.Options{Host: "127.0.0.1", Port: s.Port, NoLog: true, NoSigs: true, MaxPayload: s.MaxPayload}
	if s.ClusterPort > 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: s.ClusterPort, NoAdvertise: true}
		for _, r := range s.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", r)})
		}
	}
	if s.Password != "" {
		u := &server.User{Username: "node", Password: s.Password}
		if s.Publish != nil {
			u.Permissions = &server.Permissions{Publish: &server.SubjectPermission{Allow: s.Publish}, Subscribe: &server.SubjectPermission{Allow: s.Subscribe}}
		}
		o.Users = []*server.User{u}
	}
	return o
}

func (s serverSpec) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.Port) }

// process is a server in a process.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	once  sync.Once
}

// serve starts a server in a process, which ends with the test at the latest.
func serve(t *testing.T, spec serverSpec) *process {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, stdin: stdin}
	t.Cleanup(p.kill)
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(stdout, line); err != nil {
		t.Fatalf("the server did not start: %v", err)
	}
	return p
}

func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
	})
}

// ports returns ports that nobody listens at.
func ports(t *testing.T, n int) (list []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().(*net.TCPAddr).Port)
	}
	return list
}

func oneServer(t *testing.T) serverSpec { return serverSpec{Port: ports(t, 1)[0]} }

// three returns servers that know each other.
func three(t *testing.T) (specs []serverSpec) {
	p := ports(t, 6)
	for i := range 3 {
		specs = append(specs, serverSpec{Port: p[i], ClusterPort: p[3+i], Routes: p[3:]})
	}
	return specs
}

// end is one end of a link, which keeps what it is told.
type end struct {
	*Link
	self wire.Address

	mu       sync.Mutex
	log      bytes.Buffer
	messages []string
	notTaken []string
	states   []string
	hold     chan struct{} // not nil: Received waits for it
}

func connect(t *testing.T, node string, change func(*Options), servers ...serverSpec) *end {
	t.Helper()
	e := &end{self: wire.Address{Node: node, Run: wire.NewRun()}}
	if err := e.connect(t, change, servers...); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *end) connect(t *testing.T, change func(*Options), servers ...serverSpec) error {
	t.Helper()
	o := Options{Subjects: wire.Subjects{Cluster: "main"}, Self: e.self, Received: e.received,
		Log:      slog.New(slog.NewTextHandler(lockedWriter{e}, nil)),
		NotTaken: func(what string) { e.note(&e.notTaken, what) },
		State:    func(connected bool, reason string) { e.note(&e.states, fmt.Sprint(connected, " ", reason)) }}
	for _, s := range servers {
		o.URLs = append(o.URLs, s.url())
	}
	if change != nil {
		change(&o)
	}
	l, err := Connect(t.Context(), o)
	if err != nil {
		return err
	}
	e.Link = l
	t.Cleanup(func() {
		if err := l.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return nil
}

type lockedWriter struct{ e *end }

func (w lockedWriter) Write(b []byte) (int, error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return w.e.log.Write(b)
}

func (e *end) note(list *[]string, text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	*list = append(*list, text)
}

func (e *end) received(m Message) {
	e.note(&e.messages, fmt.Sprintf("%s %d %s", m.From, m.Way, m.Data))
	e.mu.Lock()
	hold := e.hold
	e.mu.Unlock()
	if hold != nil {
		<-hold
	}
}

// got returns what has come that begins with prefix.
func (e *end) got(list *[]string, prefix string) (found []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, text := range *list {
		if strings.HasPrefix(text, prefix) {
			found = append(found, text)
		}
	}
	return found
}

func (e *end) logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String()
}

// until waits for what another process or goroutine does.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}

// meet waits until messages pass from one end to another.
func meet(t *testing.T, from, to *end) {
	t.Helper()
	before := len(to.got(&to.messages, from.self.Node+" 0 hello"))
	until(t, "messages pass from "+from.self.Node+" to "+to.self.Node, func() bool {
		_ = from.Send(to.self, "", []byte("hello"))
		return len(to.got(&to.messages, from.self.Node+" 0 hello")) > before
	})
}
