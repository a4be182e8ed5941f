package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Sessions are the attached sessions of clients.
type Sessions struct {
	o *Options

	mu       sync.Mutex // guards attached; taken before the locks of per-session state
	attached map[*protocol.Session]*attachment
}

// attachment is one registration of a session.
type attachment struct {
	cancel    func() bool // prevents the handling of the session's end; false: too late
	notifying atomic.Bool // the client is being notified of changed tools
}

func newSessions(o *Options) *Sessions {
	return &Sessions{o: o, attached: make(map[*protocol.Session]*attachment)}
}

// attach registers s until ctx ends. drop then removes the session's state, and returns what to do after the lock
// is released.
func (l *Sessions) attach(ctx context.Context, s *protocol.Session, drop func() (dropped func())) error {
	began := l.o.Hooks.SessionBegan(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Closing.Err() != nil || !l.o.Beside.Enter() {
		return protocol.Errorf(protocol.ShuttingDown, "the host is closed")
	}
	l.detach(l.attached[s])
	a := new(attachment)
	l.attached[s] = a
	a.cancel = context.AfterFunc(ctx, func() {
		defer l.o.Beside.Leave()
		l.ended(s, a, drop, began)
	})
	return nil
}

// Len returns the number of attached sessions.
func (l *Sessions) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.attached)
}

// Clients describes the attached sessions, sorted by id. listing tells whether the list of a session has all tools or
// the search tools.
func (l *Sessions) Clients(listing func(*protocol.Session) string) []status.Client {
	list := []status.Client{}
	for _, s := range l.all() {
		list = append(list, status.Client{
			Name:      stats.ClientName(s.ClientInfo),
			Caller:    s.Caller,
			Toolset:   s.Toolset,
			Tools:     listing(s),
			Session:   s.ID,
			Protocol:  s.Version,
			Extension: s.Extension,
			Front:     s.Front,
			Since:     s.Since,
		})
	}
	slices.SortFunc(list, func(a, b status.Client) int { return strings.Compare(a.Session, b.Session) })
	return list
}

// ByKey returns the session of an instance's key, nil if there is none.
func (l *Sessions) ByKey(key string) *protocol.Session {
	for _, s := range l.all() {
		if s.ID != "" && unit.SessionKey(s) == key {
			return s
		}
	}
	return nil
}

func (l *Sessions) all() []*protocol.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.attached))
}

// IfAttached runs f if s is attached, and reports whether it is. f may record state for s: the end of s, which
// removes that state, waits until f has returned.
func (l *Sessions) IfAttached(s *protocol.Session, f func()) (attached bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.attached[s] == nil {
		return false
	}
	f()
	return true
}

// notify runs send concurrently for each attached session, and waits until all calls have returned or ctx has ended,
// because a client may ignore ctx. It skips clients that are still busy with the previous notification.
func (l *Sessions) notify(ctx context.Context, send func(*protocol.Session)) {
	l.mu.Lock()
	attached := maps.Clone(l.attached)
	l.mu.Unlock()
	notified, pending := make(chan struct{}, len(attached)), 0
	for s, a := range attached {
		if s.Client == nil || !a.notifying.CompareAndSwap(false, true) {
			continue
		}
		if l.o.Beside.Go(func() {
			send(s)
			a.notifying.Store(false)
			notified <- struct{}{}
		}) {
			pending++
		}
	}
	for ; pending > 0; pending-- {
		select {
		case <-notified:
		case <-ctx.Done():
			return
		}
	}
}

// concerns reports whether i serves s.
func concerns(i *unit.Instance, s *protocol.Session) bool {
	return !i.Unit.PerSession() || unit.SessionKey(s) == i.Key
}

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
