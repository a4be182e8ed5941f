package exthost

import (
	"context"
	"sync/atomic"

	"github.com/exthost/exthost/protocol"
)

// attachment is one registration of a session.
type attachment struct {
	cancel  func() bool // keeps its end from being acted on; reports whether that was in time
	telling atomic.Bool // its client is being told something
}

// Attach registers s for what the host tells its clients, such as changed tool
// lists, until ctx ends. It does not block. A host that is closed takes no more
// sessions: the error is shutting_down.
func (h *Host) Attach(ctx context.Context, s *protocol.Session) error {
	began := h.sessionBegan(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing.Err() != nil {
		return protocol.Errorf(protocol.ShuttingDown, "the host is closed")
	}
	h.detach(h.sessions[s])
	h.running.Add(1)
	a := new(attachment)
	h.sessions[s] = a
	a.cancel = context.AfterFunc(ctx, func() {
		defer h.running.Done()
		h.ended(s, a, began)
	})
	return nil
}

// detach forgets a registration, which may be nil, before its ctx has ended.
func (h *Host) detach(a *attachment) {
	if a != nil && a.cancel() {
		h.running.Done()
	}
}

// ended is what happens when the ctx of an attached session has ended.
func (h *Host) ended(s *protocol.Session, a *attachment, began <-chan struct{}) {
	h.mu.Lock()
	current := h.sessions[s] == a
	var unfollowed []subscribed
	if current {
		delete(h.sessions, s)
		delete(h.levels, s)
		unfollowed = h.subscriptions.drop(s)
	}
	h.mu.Unlock()
	if current {
		h.tasks.left(s)
		unsubscribe(unfollowed)
		h.sessionEnded(s, began)
		h.endSession(s)
	}
}

// endSession stops the instances that belonged to s alone. Those of stateless
// callers belong to nobody's session.
func (h *Host) endSession(s *protocol.Session) {
	if s.ID == "" {
		return
	}
	key := sessionKey(s)
	for _, x := range h.alive() {
		x.group.Release(key)
		if x.bridge != nil {
			x.bridge.forget(key)
		}
	}
}
