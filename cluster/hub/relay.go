//go:build !slim

package hub

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/quota"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent"
)

// Nodes ask hubs about the counters of shared limits; they have no access to JetStream itself. JetStream
// answers to the reply subject of a request, which NATS permissions do not check. A node with access could
// therefore make the server send messages to a second node under the name of a third.

const (
	relayGroup   = "hubs"
	relayTimeout = time.Second // per request; nodes wait as long
	relayAgain   = time.Second // before reconnecting

	absentGrace = relayTimeout / 2     // how long a request is tried again while JetStream is unavailable
	absentPause = 5 * time.Millisecond // between tries

	maxRelayed        = 256                 // concurrent requests
	maxRelayedOfNode  = 2 * quota.MaxLeases // per node; doubled, since a node that has just restarted may have two runs
	maxRelayWaiting   = 4096                // pending requests
	maxRelayWaitBytes = 8 << 20             // bytes of pending requests
)

// relay forwards requests of nodes to JetStream until ctx ends.
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

// relayOn relays requests over one connection until the connection or ctx ends.
func (h *Hub) relayOn(ctx context.Context) error {
	subjects := wire.Subjects{Cluster: h.name}
	closed := make(chan struct{})
	conn, err := h.user(h.files.account, append(quota.Publish(h.name), subjects.Inbox("*")+".>"),
		[]string{subjects.ToHubs()}, nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
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
		return cmp.Or(conn.LastError(), nats.ErrConnectionClosed)
	}
}

// relaying holds the requests of nodes on one connection.
type relaying struct {
	conn     *nats.Conn
	subjects wire.Subjects
	work     concurrent.Gate
	places   chan struct{} // holds a value for each running request

	mu      sync.Mutex     // guards what follows
	running map[string]int // requests by node
}

// take forwards a request, and sends the answer to the node that asked. It drops a request beyond the limit of its
// node. While maxRelayed requests are running, the request waits, and all later ones wait behind it.
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
		r.leave(from) // first, because the answer lets the node send another request
		if answer != nil {
			answer.Subject, answer.Reply = m.Reply, ""
			_ = r.conn.PublishMsg(answer) // after an error, the node asks again
		}
	})
	if !admitted {
		r.leave(from)
	}
}

// ask forwards m to JetStream and returns the answer, or nil if there is none. It retries while JetStream is
// unavailable, which happens for a moment when a node is revoked (see admit).
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
	began := time.Now()
	answer, err := r.conn.RequestMsgWithContext(ctx, request)
	for errors.Is(err, nats.ErrNoResponders) && time.Since(began) < absentGrace {
		select {
		case <-ctx.Done():
		case <-time.After(absentPause):
		}
		answer, err = r.conn.RequestMsgWithContext(ctx, request)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders): // tell the node that there was no responder
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
