package link

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(processtest.Sharded(m), map[string]processtest.Verb{natstest.Name: natstest.Verb})
}

func oneServer(t *testing.T) natstest.Server {
	return natstest.Server{Port: processtest.FreePorts(t, 1)[0]}
}

// user returns a user "node" with a password and the given permissions; nil permits everything.
func user(password string, publish, subscribe []string) []*server.User {
	u := &server.User{Username: "node", Password: password}
	if publish != nil {
		u.Permissions = &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: publish},
			Subscribe: &server.SubjectPermission{Allow: subscribe},
		}
	}
	return []*server.User{u}
}

// end is one end of a link, and records what is reported to it.
type end struct {
	*Link
	self wire.Address

	mu       sync.Mutex
	log      bytes.Buffer
	messages []string
	notTaken []string
	states   []string
	hold     chan struct{} // if not nil, Received waits for it
}

func connect(t *testing.T, node string, change func(*Options), servers ...natstest.Server) *end {
	t.Helper()
	e := &end{self: wire.Address{Node: node, Run: wire.NewRun()}}
	if err := e.connect(t, change, servers...); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *end) connect(t *testing.T, change func(*Options), servers ...natstest.Server) error {
	t.Helper()
	o := Options{
		Subjects: wire.Subjects{Cluster: "main"},
		Self:     e.self,
		Received: e.received,
		Log:      slog.New(slog.NewTextHandler(lockedWriter{e}, nil)),
		NotTaken: func(what string) { e.note(&e.notTaken, what) },
		State:    func(connected bool, reason string) { e.note(&e.states, fmt.Sprint(connected, " ", reason)) },
	}
	for _, s := range servers {
		o.URLs = append(o.URLs, s.URL())
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

// got returns the recorded values with a prefix.
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

// until polls for what another process or goroutine does.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
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
