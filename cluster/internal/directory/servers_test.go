package directory

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/exthost/exthost/cluster/internal/link"
	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// linked is a directory connected to a real server.
type linked struct {
	*Directory
	link   *link.Link
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func open(t *testing.T, url, name string) *linked {
	t.Helper()
	x := &linked{}
	self := wire.Address{Node: name, Run: wire.NewRun()}
	s := new(sender)
	x.Directory = New(Options{Self: self, Version: "1.2.3", Sender: s})
	var err error
	x.link, err = link.Connect(t.Context(), link.Options{
		Access:   natsclient.Access{URLs: []string{url}},
		Subjects: wire.Subjects{Cluster: "main"},
		Self:     self,
		Received: func(m link.Message) {
			if h, body, err := wire.Decode(m.Data); err == nil {
				x.Receive(m.From, h, body)
			}
		},
		NotTaken: func(what string) { x.NotTaken(what) },
		State:    func(connected bool, _ string) { s.wait(); x.Connected(connected) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.set(x.link)
	x.Connected(x.link.Connected())
	var ctx context.Context
	ctx, x.cancel = context.WithCancel(context.Background())
	x.done.Go(func() { x.Run(ctx) })
	t.Cleanup(func() { x.close(t) })
	return x
}

func (x *linked) close(t *testing.T) {
	x.cancel()
	x.done.Wait()
	if err := x.link.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// sender is the link of a directory. The link is created after the directory.
type sender struct {
	*link.Link
	once  sync.Once
	ready chan struct{}
}

func (s *sender) init()            { s.once.Do(func() { s.ready = make(chan struct{}) }) }
func (s *sender) wait()            { s.init(); <-s.ready }
func (s *sender) set(l *link.Link) { s.init(); s.Link = l; close(s.ready) }

// Directories work over a real server.
func TestDirectoriesOverAServer(t *testing.T) {
	processtest.Leaks(t)
	srv := natstest.Run(t, &server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	var nodes []*linked
	for i := range 4 {
		x := open(t, srv.ClientURL(), fmt.Sprintf("n%d", i))
		start := time.Now()
		if err := x.Join(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("joined after %v", time.Since(start))
		x.SetOwn(Own{Shares: []Share{extension("notes", "add", "list")}})
		nodes = append(nodes, x)
	}
	until := func(what string, f func(x *linked) bool, nodes ...*linked) time.Duration {
		t.Helper()
		start := time.Now()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for _, x := range nodes {
			for !f(x) {
				if time.Since(start) > time.Minute {
					t.Fatalf("not within a minute: %s", what)
				}
				<-tick.C
			}
		}
		return time.Since(start)
	}
	t.Logf("all places are known after %v",
		until("all places", func(x *linked) bool { return len(x.Places()) == 3 }, nodes...))

	second := open(t, srv.ClientURL(), "n0")
	start := time.Now()
	if err := second.Join(t.Context()); err == nil || !strings.Contains(err.Error(), "another host is node n0") {
		t.Errorf("a second node of a name: %v", err)
	}
	t.Logf("the second of a name is refused after %v", time.Since(start))

	nodes[3].link.Close(t.Context()) // no goodbye
	took := until("it is lost", func(x *linked) bool { return !x.Alive(nodes[3].o.Self) }, nodes[:3]...)
	t.Logf("lost after %v", took)
	nodes[2].close(t)
	t.Logf("the goodbye is heard after %v",
		until("its goodbye", func(x *linked) bool { return !x.Alive(nodes[2].o.Self) }, nodes[:2]...))
}
