package gateway

import (
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
)

// detach cancels a registration before its ctx has ended. a may be nil.
func (l *Sessions) detach(a *attachment) {
	if a != nil && a.cancel() {
		l.o.Beside.Leave()
	}
}

// ended handles the end of a session.
func (l *Sessions) ended(s *protocol.Session, a *attachment, drop func() (dropped func()), began <-chan struct{}) {
	dropped := l.remove(s, a, drop)
	if dropped == nil { // s was attached again
		return
	}
	dropped()
	l.o.Hooks.SessionEnded(s, began)
	if s.ID == "" { // instances of a stateless caller belong to no session
		return
	}
	if l.o.Ended != nil {
		l.o.Ended(s)
	}
	key := unit.SessionKey(s)
	for _, u := range l.o.Units.All() {
		u.EndSession(key)
	}
}

// remove removes s if a is its registration, in one step: s may be attached again at once.
func (l *Sessions) remove(s *protocol.Session, a *attachment, drop func() (dropped func())) (dropped func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attached[s] != a {
		return nil
	}
	delete(l.attached, s)
	return drop()
}

// Close removes every session without handling its end.
func (l *Sessions) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attached {
		l.detach(a)
	}
	clear(l.attached)
}
