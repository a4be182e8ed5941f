package link

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// interposed is a proxy of a server that can send an error to its clients.
type interposed struct {
	url string

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func interpose(t *testing.T, server string) *interposed {
	t.Helper()
	p := &interposed{conns: make(map[net.Conn]bool)}
	p.url = natstest.Between(t, server, func(client net.Conn, words []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns[client] = true
		_, _ = client.Write(words)
	})
	return p
}

// refuse sends an error to all clients.
func (p *interposed) refuse(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_, _ = fmt.Fprintf(c, "-ERR '%s'\r\n", text)
	}
	clear(p.conns)
}

// A server may close a connection for good, such as after max_payload was lowered. The link opens another one
// with the same subscriptions.
func TestClosedForGood(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.Spawn(t)
	way := interpose(t, spec.URL())
	a := connect(t, "a", func(o *Options) { o.URLs = []string{way.url} }, spec)
	b := connect(t, "b", nil, spec)
	if err := a.Hold(); err != nil {
		t.Fatal(err)
	}
	meet(t, a, b)
	for round := range 2 {
		way.refuse("Maximum Payload Violation")
		until(t, "the reason is told", func() bool {
			return len(a.got(&a.states, "false the connection to "+way.url+": nats: Maximum Payload Violation")) ==
				1+round
		})
		until(t, "it connects", func() bool { return len(a.got(&a.states, "true")) == 2+round })
		meet(t, a, b)
		meet(t, b, a)
		message := fmt.Appendf(nil, "name%d", round)
		if err := b.Send(wire.Address{Node: "a", Run: wire.NameRun}, "", message); err != nil {
			t.Fatal(err)
		}
		until(t, "the name is held",
			func() bool { return len(a.got(&a.messages, fmt.Sprintf("b %d name%d", ToName, round))) == 1 })
	}
	if log := a.logged(); strings.Count(log, "making another") != 2 {
		t.Errorf("the log: %s", log)
	}
}

// The name can be taken while a connection that was closed for good is being replaced.
func TestClosedForAMoment(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.Spawn(t)
	way := interpose(t, spec.URL())
	a := connect(t, "a", func(o *Options) { o.URLs = []string{way.url} }, spec)
	b := connect(t, "b", nil, spec)
	meet(t, b, a)
	way.refuse("Maximum Payload Violation")
	until(t, "the connection is closed", func() bool { return a.conn.Load().IsClosed() })
	if err := a.Hold(); err != nil {
		t.Error(err)
	}
	until(t, "it connects", func() bool { return len(a.got(&a.states, "true")) == 2 })
	meet(t, a, b)
	if err := b.Send(wire.Address{Node: "a", Run: wire.NameRun}, "unheld", []byte("name")); err != nil {
		t.Fatal(err)
	}
	until(t, "the name is held", func() bool {
		return len(a.got(&a.messages, fmt.Sprintf("b %d name", ToName)))+len(b.got(&b.notTaken, "")) > 0
	})
	if nobody := b.got(&b.notTaken, ""); len(nobody) > 0 {
		t.Error("the name is not held")
	}
}

// Close waits for the callbacks of a connection that is made at the same time.
func TestCloseWaitsForANewConnection(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.Spawn(t)
	told, rest := make(chan bool), make(chan struct{})
	a := connect(t, "a", func(o *Options) {
		o.State = func(connected bool, _ string) {
			select {
			case told <- connected:
			case <-rest:
			}
		}
	}, spec)
	<-told
	a.Link.mu.Lock()
	a.closed = true
	a.Link.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = a.open()
	}()
	<-told
	select {
	case <-over:
		t.Error("it ends first")
	case <-time.After(50 * time.Millisecond):
	}
	close(rest)
	<-over
}

// Neither Connect nor Close blocks if a server closes each connection at once.
func TestClosedAtOnce(t *testing.T) {
	processtest.Leaks(t)
	url := natstest.Impostor(t, "-ERR 'go away'\r\n")
	over := make(chan error)
	for range 2000 { // at a different moment each time
		go func() {
			k, err := Connect(t.Context(), Options{
				Access:   natsclient.Access{URLs: []string{url}},
				Subjects: wire.Subjects{Cluster: "main"},
				Self:     wire.Address{Node: "a", Run: wire.NewRun()},
				Received: func(Message) {},
				NotTaken: func(string) {},
			})
			if err == nil {
				err = k.Close(t.Context())
			}
			over <- err
		}()
		select {
		case err := <-over:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("it hangs")
		}
	}
}
