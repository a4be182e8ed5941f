//go:build !nohub

package hub

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent/inflight"
)

// A node asks its hubs about the counters of shared limits, and no node may ask JetStream. JetStream answers to the
// reply subject of a request, and NATS servers check the subject of a message alone, not its reply. A node could
// otherwise have the server send messages to a second node under the name of a third.

const (
	relayGroup   = "hubs"
	relayTimeout = time.Second // of a request, as long as a node waits
	relayAgain   = time.Second // before another connection

	absentTries = 20                   // of a request that JetStream does not take
	absentPause = 5 * time.Millisecond // between them

	maxRelayed        = 256                 // requests at once
	maxRelayedOfNode  = 2 * quota.MaxLeases // for one that has just started again, too
	maxRelayWaiting   = 4096                // requests that wait for a place
	maxRelayWaitBytes = 8 << 20             // of those
)

// relay has JetStream answer what nodes ask, until ctx ends.
func (h *Hub) relay(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.relayOn(ctx)
		if ctx.Err() == nil {
			h.log.Warn("the hub does not answer nodes about the counters of limits of scope cluster; it tries again",
				"error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(relayAgain):
		}
	}
}

// relayOn is relay on one connection.
func (h *Hub) relayOn(ctx context.Context) error {
	subjects := wire.Subjects{Cluster: h.name}
	closed := make(chan struct{})
	conn, err := h.user(append(quota.Publish(h.name), subjects.Inbox("*")+".>"), []string{subjects.ToHubs()},
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		return err
	}
	r := relaying{
		conn:     conn,
		subjects: subjects,
		places:   make(chan struct{}, maxRelayed),
		running:  make(map[string]int),
	}
	defer func() {
		conn.Close()
		<-closed
		<-r.work.Close()
	}()
	sub, err := conn.QueueSubscribe(subjects.ToHubs(), relayGroup, func(m *nats.Msg) {
		if r.work.Enter() {
			r.take(ctx, m)
			r.work.Leave()
		}
	})
	if err == nil {
		err = sub.SetPendingLimits(maxRelayWaiting, maxRelayWaitBytes)
	}
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-closed:
		return errors.New("the connection is closed")
	}
}

// relaying are the requests of nodes on one connection.
type relaying struct {
	conn     *nats.Conn
	subjects wire.Subjects
	work     inflight.Gate
	places   chan struct{} // holds a value for each request

	mu      sync.Mutex     // guards what follows
	running map[string]int // requests by node
}

// take has a request answered, to the node that sent it and to no other. A request beyond the bound of its node has no
// answer; one beyond the bound of all waits, and with it those behind it.
func (r *relaying) take(ctx context.Context, m *nats.Msg) {
	what, from := r.subjects.Asked(m.Subject)
	to := quota.Subject(r.subjects.Cluster, what)
	if to == "" || !strings.HasPrefix(m.Reply, r.subjects.Inbox(from)+".") || !r.enter(from) {
		return
	}
	select {
	case r.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	admitted := r.work.Go(func() {
		answer := r.ask(ctx, to, m)
		r.leave(from) // before the node may send the next one
		if answer != nil {
			answer.Subject, answer.Reply = m.Reply, ""
			_ = r.conn.PublishMsg(answer) // the node asks again
		}
	})
	if !admitted {
		r.leave(from)
	}
}

// ask asks JetStream what m says; nil without an answer. A request that JetStream does not take is sent again, since
// the server takes JetStream from an account for a moment whenever a node is revoked (see admit).
func (r *relaying) ask(ctx context.Context, to string, m *nats.Msg) *nats.Msg {
	request := nats.NewMsg(to)
	request.Data = m.Data
	for _, name := range quota.Headers {
		if v := m.Header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	answer, err := r.conn.RequestMsgWithContext(ctx, request)
	for try := 1; errors.Is(err, nats.ErrNoResponders) && try < absentTries; try++ {
		select {
		case <-ctx.Done():
		case <-time.After(absentPause):
		}
		answer, err = r.conn.RequestMsgWithContext(ctx, request)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders): // which the node is told in the same way
		answer = nats.NewMsg("")
		answer.Header.Set("Status", "503")
	case err != nil:
		return nil
	}
	return answer
}

func (r *relaying) enter(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[node] >= maxRelayedOfNode {
		return false
	}
	r.running[node]++
	return true
}

func (r *relaying) leave(node string) {
	<-r.places
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[node]--; r.running[node] == 0 {
		delete(r.running, node)
	}
}
