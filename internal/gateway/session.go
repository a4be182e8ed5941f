package gateway

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
)

// attachment is one registration of a session.
type attachment struct {
	cancel    func() bool // keeps the end of the session from being handled; reports whether that was in time
	notifying atomic.Bool // the client is being notified of changed tools
}

// Attach registers s for notifications, such as changed tool lists, until ctx ends. It does
// not block. A host that closes takes no more sessions: the error is shutting_down.
func (g *Gateway) Attach(ctx context.Context, s *protocol.Session) error {
	began := g.o.Hooks.SessionBegan(s)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.o.Closing.Err() != nil || !g.o.Beside.Enter() {
		return protocol.Errorf(protocol.ShuttingDown, "the host is closed")
	}
	g.detach(g.sessions[s])
	a := new(attachment)
	g.sessions[s] = a
	a.cancel = context.AfterFunc(ctx, func() {
		defer g.o.Beside.Leave()
		g.ended(s, a, began)
	})
	return nil
}

// detach drops a registration, which may be nil, before its ctx has ended.
func (g *Gateway) detach(a *attachment) {
	if a != nil && a.cancel() {
		g.o.Beside.Leave()
	}
}

// ended handles the end of a session.
func (g *Gateway) ended(s *protocol.Session, a *attachment, began <-chan struct{}) {
	g.mu.Lock()
	current := g.sessions[s] == a
	var idle []subscription
	if current {
		delete(g.sessions, s)
		delete(g.logLevels, s)
		idle = g.subscriptions.drop(s)
	}
	g.mu.Unlock()
	if !current {
		return
	}
	g.tasks.forgetSession(s)
	unsubscribe(idle)
	g.o.Hooks.SessionEnded(s, began)
	if s.ID == "" { // the instances of a stateless caller belong to no session
		return
	}
	key := unit.SessionKey(s)
	for _, u := range g.o.Units.All() {
		u.EndSession(key)
	}
}

// Close drops every session without handling its end.
func (g *Gateway) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.sessions {
		g.detach(a)
	}
	clear(g.sessions)
}

// Sessions returns how many sessions are attached.
func (g *Gateway) Sessions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.sessions)
}

// Session returns the attached session of an instance's key; nil when there is none.
func (g *Gateway) Session(key string) *protocol.Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.sessions {
		if s.ID != "" && unit.SessionKey(s) == key {
			return s
		}
	}
	return nil
}

// notifyTimeout bounds how long slow clients can keep others from their notification.
const notifyTimeout = 2 * time.Second

// NotifyToolsChanged tells clients of extensions that their list of tools has changed.
func (g *Gateway) NotifyToolsChanged(ctx context.Context) {
	now := g.o.Snapshots.Load()
	g.mu.Lock()
	sessions := maps.Clone(g.sessions)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	notified, pending := make(chan struct{}, len(sessions)), 0
	for s, a := range sessions {
		if s.Client == nil || now.Destinations[s.Extension] != nil || !a.notifying.CompareAndSwap(false, true) {
			continue // not reachable, or still busy with the previous notification
		}
		if g.o.Beside.Go(func() {
			if err := s.Client.Notify(ctx, protocol.MethodToolsListChanged, nil); err != nil {
				g.o.Log.Debug("a client was not told of the new tool list", "session", s.ID, "error", err)
			}
			a.notifying.Store(false)
			notified <- struct{}{}
		}) {
			pending++
		}
	}
	for ; pending > 0; pending-- {
		select {
		case <-notified:
		case <-ctx.Done(): // a client may ignore ctx
			return
		}
	}
}
