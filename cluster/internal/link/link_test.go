package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/testing/natstest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestMessages(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.MaxPayload = 64 << 10
	spec.Spawn(t)
	a, b := connect(t, "a", nil, spec), connect(t, "b", nil, spec)
	if err := b.Hold(); err != nil {
		t.Fatal(err)
	}
	if err := a.Hold(); err != nil {
		t.Fatal(err)
	}
	meet(t, b, a)
	meet(t, a, b)

	var want []string
	for i := range 1000 {
		want = append(want, fmt.Sprintf("a 0 n%d", i))
		if err := a.Send(b.self, "", fmt.Appendf(nil, "n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all come", func() bool { return len(b.got(&b.messages, "a 0 n")) == len(want) })
	if got := b.got(&b.messages, "a 0 n"); !slices.Equal(got, want) {
		t.Error("they come in another order")
	}

	named := a.Send(wire.Address{Node: "b", Run: wire.NameRun}, "", []byte("name"))
	if err := errors.Join(named, a.Broadcast([]byte("all")), a.Any([]byte("any"))); err != nil {
		t.Fatal(err)
	}
	until(t, "each way", func() bool {
		return len(b.got(&b.messages, fmt.Sprintf("a %d all", ToAll))) == 1 &&
			len(b.got(&b.messages, fmt.Sprintf("a %d any", ToAny))) == 1 &&
			len(b.got(&b.messages, fmt.Sprintf("a %d name", ToName))) == 1
	})
	if echo := a.got(&a.messages, "a "); len(echo) > 0 {
		t.Errorf("a run hears itself: %q", echo)
	}

	if err := a.Send(wire.Address{Node: "b", Run: wire.NewRun()}, "x1", []byte("lost")); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody takes it", func() bool { return slices.Equal(a.got(&a.notTaken, ""), []string{"x1"}) })

	if a.MaxPayload() != 64<<10 {
		t.Errorf("MaxPayload is %d", a.MaxPayload())
	}
	err := a.Send(b.self, "", make([]byte, 64<<10+1))
	if !errors.Is(err, ErrUnsent) || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a message that is too long: %v", err)
	}
	if err := a.Send(wire.Address{Node: "b", Run: "no run"}, "", nil); !errors.Is(err, ErrUnsent) {
		t.Errorf("a subject that is none: %v", err)
	}
	if rtt, err := a.RTT(t.Context()); err != nil || rtt <= 0 {
		t.Errorf("RTT: %v, %v", rtt, err)
	}
	if a.Server() != spec.URL() || !a.Connected() {
		t.Errorf("Server is %q", a.Server())
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.Send(b.self, "", nil); !errors.Is(err, ErrUnsent) {
		t.Errorf("a message after Close: %v", err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// The only server is killed and restarted. Messages that were refused in between never arrive.
func TestRefusedMessagesNeverArrive(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	a := connect(t, "a", nil, spec) // before the server runs
	until(t, "the reason is told",
		func() bool { return len(a.got(&a.states, "false no server of the cluster answers")) > 0 })
	if err := a.Send(wire.Address{Node: "b", Run: wire.NewRun()}, "x1", []byte("early")); !errors.Is(err, ErrUnsent) {
		t.Errorf("before there is a server: %v", err)
	}
	if a.Server() != "" || a.Connected() {
		t.Errorf("connected to %q", a.Server())
	}
	s := spec.Spawn(t)
	until(t, "it connects", func() bool { return len(a.got(&a.states, "true")) == 1 })
	b := connect(t, "b", nil, spec)
	meet(t, a, b)
	for round := range 3 {
		s.Kill()
		until(t, "it is away", func() bool {
			return len(a.got(&a.states, "false")) > 0 && !a.Connected() && !b.Connected()
		})
		for range 200 {
			if err := a.Send(b.self, "x2", []byte("away")); !errors.Is(err, ErrUnsent) {
				t.Fatalf("without a connection: %v", err)
			}
		}
		s = spec.Spawn(t)
		until(t, "it is back", func() bool { return len(a.got(&a.states, "true")) == 2+round })
		meet(t, a, b)
	}
	if late := append(b.got(&b.messages, "a 0 away"), b.got(&b.messages, "a 0 early")...); len(late) > 0 ||
		len(a.got(&a.notTaken, "")) > 0 {
		t.Errorf("%d messages that were not sent have come", len(late))
	}
}

// Each of three servers is killed in turn.
func TestServerKilled(t *testing.T) {
	processtest.Leaks(t)
	specs := natstest.Knowing(t, 3)
	var processes []*processtest.Process
	for _, s := range specs {
		processes = append(processes, s.Spawn(t))
	}
	a, b := connect(t, "a", nil, specs...), connect(t, "b", nil, specs...)
	meet(t, a, b)
	for i, p := range processes {
		p.Kill()
		start := time.Now()
		meet(t, a, b)
		meet(t, b, a)
		t.Logf("server %d killed: messages pass both ways after %v", i, time.Since(start))
		specs[i].Spawn(t)
	}
}

func TestRefused(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.Users = user("right", nil, nil)
	spec.Spawn(t)
	e := &end{self: wire.Address{Node: "a", Run: wire.NewRun()}}
	err := e.connect(t, func(o *Options) { o.User, o.Password = "node", "wrong" }, spec)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "invited again") {
		t.Errorf("with wrong credentials: %v", err)
	}
	connect(t, "a", func(o *Options) { o.User, o.Password = "node", "right" }, spec)
}

// A node's credentials are revoked while it is connected.
func TestRevoked(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.Users = user("right", nil, nil)
	s := spec.Spawn(t)
	a := connect(t, "a", func(o *Options) { o.User, o.Password = "node", "right" }, spec)
	s.Kill()
	other := spec
	other.Users = user("another", nil, nil)
	s = other.Spawn(t)
	until(t, "the reason is told", func() bool { return len(a.got(&a.states, "false refused: ")) > 3 })
	s.Kill()
	spec.Spawn(t)
	until(t, "it connects when it is taken again", a.Connected)
}

func TestRefusals(t *testing.T) {
	processtest.Leaks(t)
	subjects := wire.Subjects{Cluster: "main"}
	spec := oneServer(t)
	spec.Users = user("right", subjects.Publish("a"), subjects.Subscribe("a"))
	spec.Spawn(t)
	as := func(o *Options) { o.User, o.Password = "node", "right" }
	a := connect(t, "a", as, spec)
	other := connect(t, "a", as, spec)
	if err := a.Hold(); err != nil {
		t.Fatal(err)
	}
	meet(t, other, a)
	if err := other.Send(wire.Address{Node: "a", Run: wire.NewRun()}, "x1", nil); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody takes it", func() bool { return len(other.got(&other.notTaken, "x1")) == 1 })
	if log := a.logged() + other.logged(); strings.Contains(log, "does not permit") {
		t.Errorf("with what wire says: %s", log)
	}

	forger := connect(t, "b", as, spec) // with the credentials of a
	for range 5 {
		if err := forger.Send(a.self, "", []byte("forged")); err != nil {
			t.Fatal(err)
		}
	}
	if err := forger.Broadcast(nil); err != nil { // refused after all of the above
		t.Fatal(err)
	}
	all := subjects.All("b")
	until(t, "the servers refuse it", func() bool { return strings.Contains(forger.logged(), all) })
	if log := forger.logged(); strings.Count(log, "Publish to") != 2 || strings.Count(log, all) != 1 ||
		strings.Count(log, "Subscription to") != 1 || !strings.Contains(log, "cluster permissions") {
		t.Errorf("the log: %s", log)
	}
	if got := a.got(&a.messages, "b "); len(got) > 0 {
		t.Errorf("a forged message has come: %q", got)
	}
}

// A server that is about to stop moves its clients to others.
func TestLameDuck(t *testing.T) {
	processtest.Leaks(t)
	specs := natstest.Knowing(t, 2)
	servers := make(map[string]*server.Server)
	for i := range specs {
		o, err := specs[i].Options()
		if err != nil {
			t.Fatal(err)
		}
		o.LameDuckDuration, o.LameDuckGracePeriod = 30*time.Second, 10*time.Second // longer than the test
		servers[specs[i].URL()] = natstest.Run(t, o)
	}
	a, b := connect(t, "a", nil, specs...), connect(t, "b", nil, specs...)
	meet(t, a, b)
	first := a.Server()
	leaving := servers[first]
	done := make(chan struct{})
	go func() { defer close(done); leaving.LameDuckShutdown() }()
	until(t, "it goes to the other server", func() bool { s := a.Server(); return s != "" && s != first })
	meet(t, a, b)
	leaving.Shutdown()
	<-done
}

func TestNKey(t *testing.T) {
	processtest.Leaks(t)
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	spec := oneServer(t)
	spec.Nkeys = []*server.NkeyUser{{Nkey: public}}
	spec.Spawn(t)
	a := connect(t, "a", func(o *Options) { o.NKey, o.Sign = public, pair.Sign }, spec)
	if !a.Connected() {
		t.Error("it is not connected")
	}
}

// A run does not handle its messages.
func TestSlowReader(t *testing.T) {
	processtest.Leaks(t)
	spec := oneServer(t)
	spec.Spawn(t)
	a, b := connect(t, "a", nil, spec), connect(t, "b", nil, spec)
	meet(t, a, b)
	hold := make(chan struct{})
	b.mu.Lock()
	b.hold = hold
	b.mu.Unlock()
	for i := range maxPending + 1000 {
		if err := a.Send(b.self, "", []byte("much")); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 { // a server disconnects a client that does not receive in time
			until(t, "what was sent is received", func() bool {
				_, sent := a.RTT(t.Context())
				_, received := b.RTT(t.Context())
				return sent == nil && received == nil
			})
		}
	}
	until(t, "the log says so", func() bool { return strings.Contains(b.logged(), "faster than they are handled") })
	if !b.Connected() {
		t.Error("the reader was cut off")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Close(ctx); err == nil {
		t.Error("Close returns while a message is handled")
	}
	close(hold)
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
