// Package cluster carries calls between hosts, with exactly one outcome for each call. It tracks which nodes
// there are and which extensions they share.
package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/peers"
	"github.com/exthost/exthost/protocol"
)

const (
	maxSessions = 4096 // per remote node, over all of its runs
	maxEnded    = 256  // per run: the session ids that ended last
)

// guests holds the sessions of remote clients on this host. A session lasts from its first call until its
// node says that it ended, or until its run is gone.
type guests struct {
	closing context.Context // ends every guest
	client  func(of wire.Address, session, extension string) protocol.Peer

	mu   sync.Mutex // guards what follows
	runs map[wire.Address]*visitors
}

// visitors are the guests of one run.
type visitors struct {
	known map[guestKey]*guest
	ended []string // late calls of the sessions that ended last are refused
}

// guestKey identifies a guest: extensions send requests outside of calls to a session, so each extension has
// its own guest of a remote session.
type guestKey struct{ session, extension string }

// guest is a session of a remote client at one extension.
type guest struct {
	session *protocol.Session
	end     context.CancelFunc
	once    sync.Once
	refused error // the error of Attach
}

func newGuests(closing context.Context, client func(of wire.Address, session, extension string) protocol.Peer) *guests {
	return &guests{closing: closing, client: client, runs: make(map[wire.Address]*visitors)}
}

// session returns the session for a call of run from to an extension. A session without an id lasts as long
// as the call.
func (g *guests) session(h peers.Host, from wire.Address, extension string, s *wire.Session,
) (*protocol.Session, error) {
	if s == nil {
		s = new(wire.Session)
	}
	if s.ID == "" {
		return guestOf(from, extension, s, nil), nil
	}
	one, err := g.guest(from, extension, s)
	if err != nil {
		return nil, err
	}
	one.once.Do(func() {
		ctx, end := context.WithCancel(g.closing)
		one.end = end
		one.refused = h.Attach(ctx, one.session)
	})
	if one.session.Caller != s.Caller { // the caller of a session never changes
		return nil, protocol.Errorf(protocol.Rejected, "session %s of node %s belongs to another caller", s.ID,
			from.Node)
	}
	return one.session, one.refused
}

// guest finds or adds the guest of s at an extension.
func (g *guests) guest(from wire.Address, extension string, s *wire.Session) (*guest, error) {
	key := guestKey{s.ID, extension}
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.of(from)
	if one := v.known[key]; one != nil {
		return one, nil
	}
	if slices.Contains(v.ended, s.ID) {
		return nil, errEnded
	}
	all := 0 // count the sessions of all runs of the node: the directory may miss the end of a run
	for run, other := range g.runs {
		if run.Node == from.Node {
			all += len(other.known)
		}
	}
	if all >= maxSessions {
		return nil, protocol.Errorf(protocol.Overloaded, "node %s has %d sessions here already", from.Node, maxSessions)
	}
	one := &guest{session: guestOf(from, extension, s, g.client(from, s.ID, extension))}
	v.known[key] = one
	return one, nil
}

// errEnded refuses a call that arrives after the end of its session.
var errEnded = protocol.Errorf(protocol.Canceled, "the session of the call has ended")

// of returns the guests of a run. The caller holds g.mu.
func (g *guests) of(from wire.Address) *visitors {
	v := g.runs[from]
	if v == nil {
		v = &visitors{known: make(map[guestKey]*guest)}
		g.runs[from] = v
	}
	return v
}

// guestOf returns the session of a guest. Its id contains the run, so that ids of two nodes never collide.
func guestOf(from wire.Address, extension string, s *wire.Session, client protocol.Peer) *protocol.Session {
	out := &protocol.Session{
		Node:         from.Node,
		Extension:    extension,
		Since:        time.Now(),
		Caller:       s.Caller,
		Instance:     s.Instance,
		Version:      s.Version,
		Capabilities: s.Caps,
		ClientInfo:   s.ClientInfo,
		Client:       client,
		Remote:       true,
	}
	if s.ID != "" {
		out.ID = peers.GuestID(from.Node, from.Run, extension, s.ID)
	} else if s.Instance == "" {
		out.Instance = from.Node
	}
	return out
}

// end ends a remote session at all extensions.
func (g *guests) end(from wire.Address, id string) {
	var ended []*guest
	g.mu.Lock()
	if v := g.runs[from]; v != nil {
		for key, one := range v.known {
			if key.session == id {
				delete(v.known, key)
				ended = append(ended, one)
			}
		}
		v.ended = append(v.ended[max(0, len(v.ended)-maxEnded+1):], id)
	}
	g.mu.Unlock()
	for _, one := range ended {
		one.ended()
	}
}

// endRun ends all sessions of a run.
func (g *guests) endRun(from wire.Address) {
	g.mu.Lock()
	v := g.runs[from]
	delete(g.runs, from)
	g.mu.Unlock()
	if v == nil {
		return
	}
	for _, one := range v.known {
		one.ended()
	}
}

func (one *guest) ended() {
	one.once.Do(func() { one.refused = errEnded }) // not attached yet, and never will be
	if one.end != nil {
		one.end()
	}
}

const (
	maxBrief  = 4 << 10 // bytes of capabilities, and of clientInfo; both travel in the head of a call
	maxMember = 512     // bytes of one member
)

// brief returns object, without its long members if it exceeds maxBrief.
func brief(object json.RawMessage) json.RawMessage {
	if len(object) <= maxBrief {
		return object
	}
	out := json.RawMessage(`{}`)
	for key, value := range rawjson.Members(object) {
		if n := len(key) + len(value); n <= maxMember && len(out)+n <= maxBrief-maxMember {
			out = rawjson.Set(out, key, value)
		}
	}
	return out
}

// away tracks which sessions of local clients have called which runs.
type away struct {
	mu   sync.Mutex // guards what follows
	byID map[string]*visit
}

// visit is one session and the runs that know it.
type visit struct {
	session *protocol.Session
	runs    map[wire.Address]struct{}
}

// note records that run to knows s. It reports false if s ends with the call or has ended already: nobody
// would tell the run when s ends, so the call must go without a session id.
func (a *away) note(h peers.Host, s *protocol.Session, to wire.Address) bool {
	return s.ID != "" && h.IfAttached(s, func() { a.add(s, to) })
}

func (a *away) add(s *protocol.Session, to wire.Address) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID == nil {
		a.byID = make(map[string]*visit)
	}
	v := a.byID[s.ID]
	if v == nil {
		v = &visit{s, make(map[wire.Address]struct{})}
		a.byID[s.ID] = v
	}
	v.runs[to] = struct{}{}
}

// session returns the local session id if run from knows it, else nil.
func (a *away) session(id string, from wire.Address) *protocol.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.byID[id]
	if v == nil {
		return nil
	}
	if _, ok := v.runs[from]; !ok {
		return nil
	}
	return v.session
}

// end removes s and returns the runs that know it.
func (a *away) end(s *protocol.Session) (runs []wire.Address) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.byID[s.ID]
	delete(a.byID, s.ID)
	if v == nil {
		return nil
	}
	for to := range v.runs {
		runs = append(runs, to)
	}
	return runs
}

// forget removes a run from all sessions.
func (a *away) forget(run wire.Address) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.byID {
		delete(v.runs, run)
	}
}
