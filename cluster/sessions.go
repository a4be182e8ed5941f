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
	maxEnded    = 256  // ids of ended sessions, per run
)

// remoteSessions holds the sessions of remote clients on this host. A session lasts from its first call until the
// client's node reports its end, or until that node's run is gone.
type remoteSessions struct {
	closing context.Context // ends all sessions
	client  func(of wire.Address, session, extension string) protocol.Peer

	mu   sync.Mutex // guards what follows
	runs map[wire.Address]*runSessions
}

// runSessions are the sessions of one run.
type runSessions struct {
	known map[sessionKey]*remoteSession
	ended []string // ids of the sessions that ended last, to refuse late calls
}

// sessionKey identifies a remote session. It contains the extension, because the peer that reaches the client speaks
// for one extension.
type sessionKey struct{ session, extension string }

// remoteSession is a session of a remote client at one extension.
type remoteSession struct {
	session *protocol.Session
	end     context.CancelFunc
	once    sync.Once
	refused error // the error of Attach
}

func newRemoteSessions(
	closing context.Context, client func(of wire.Address, session, extension string) protocol.Peer,
) *remoteSessions {
	return &remoteSessions{closing: closing, client: client, runs: make(map[wire.Address]*runSessions)}
}

// session returns the session for a call by run from at an extension. A session without an id lasts as long as the
// call.
func (r *remoteSessions) session(h peers.Host, from wire.Address, extension string, s *wire.Session,
) (*protocol.Session, error) {
	if s == nil {
		s = new(wire.Session)
	}
	if s.ID == "" {
		return sessionOf(from, extension, s, nil), nil
	}
	one, err := r.get(from, extension, s)
	if err != nil {
		return nil, err
	}
	one.once.Do(func() {
		ctx, end := context.WithCancel(r.closing)
		one.end = end
		one.refused = h.Attach(ctx, one.session)
	})
	if one.session.Caller != s.Caller { // the caller of a session never changes
		return nil, protocol.Errorf(protocol.Rejected, "session %s of node %s belongs to another caller", s.ID,
			from.Node)
	}
	return one.session, one.refused
}

// get finds or adds the session of s at an extension.
func (r *remoteSessions) get(from wire.Address, extension string, s *wire.Session) (*remoteSession, error) {
	key := sessionKey{s.ID, extension}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.of(from)
	if one := v.known[key]; one != nil {
		return one, nil
	}
	if slices.Contains(v.ended, s.ID) {
		return nil, errEnded
	}
	all := 0 // count the sessions of all runs of the node: the directory may miss the end of a run
	for run, other := range r.runs {
		if run.Node == from.Node {
			all += len(other.known)
		}
	}
	if all >= maxSessions {
		return nil, protocol.Errorf(protocol.Overloaded, "node %s has %d sessions here already", from.Node, maxSessions)
	}
	one := &remoteSession{session: sessionOf(from, extension, s, r.client(from, s.ID, extension))}
	v.known[key] = one
	return one, nil
}

// errEnded refuses a call that arrives after the end of its session.
var errEnded = protocol.Errorf(protocol.Canceled, "the session of the call has ended")

// of returns the sessions of a run. The caller holds r.mu.
func (r *remoteSessions) of(from wire.Address) *runSessions {
	v := r.runs[from]
	if v == nil {
		v = &runSessions{known: make(map[sessionKey]*remoteSession)}
		r.runs[from] = v
	}
	return v
}

// sessionOf returns the session of a call. Its id contains the run, so that ids of two nodes never collide.
func sessionOf(from wire.Address, extension string, s *wire.Session, client protocol.Peer) *protocol.Session {
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
func (r *remoteSessions) end(from wire.Address, id string) {
	var ended []*remoteSession
	r.mu.Lock()
	if v := r.runs[from]; v != nil {
		for key, one := range v.known {
			if key.session == id {
				delete(v.known, key)
				ended = append(ended, one)
			}
		}
		v.ended = append(v.ended[max(0, len(v.ended)-maxEnded+1):], id)
	}
	r.mu.Unlock()
	for _, one := range ended {
		one.ended()
	}
}

// endRun ends all sessions of a run.
func (r *remoteSessions) endRun(from wire.Address) {
	r.mu.Lock()
	v := r.runs[from]
	delete(r.runs, from)
	r.mu.Unlock()
	if v == nil {
		return
	}
	for _, one := range v.known {
		one.ended()
	}
}

func (one *remoteSession) ended() {
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

// localSessions tracks which sessions of local clients have called which runs.
type localSessions struct {
	mu   sync.Mutex // guards what follows
	byID map[string]*calledRuns
}

// calledRuns is one session and the runs that know it.
type calledRuns struct {
	session *protocol.Session
	runs    map[wire.Address]struct{}
}

// note records that run to knows session s. It reports false if s ends with the call or has ended already: since nobody
// would tell the run when s ends, the call must be sent without a session id.
func (l *localSessions) note(h peers.Host, s *protocol.Session, to wire.Address) bool {
	return s.ID != "" && h.IfAttached(s, func() { l.add(s, to) })
}

func (l *localSessions) add(s *protocol.Session, to wire.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[string]*calledRuns)
	}
	v := l.byID[s.ID]
	if v == nil {
		v = &calledRuns{s, make(map[wire.Address]struct{})}
		l.byID[s.ID] = v
	}
	v.runs[to] = struct{}{}
}

// session returns the local session with an id if run from knows it, else nil.
func (l *localSessions) session(id string, from wire.Address) *protocol.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.byID[id]
	if v == nil {
		return nil
	}
	if _, ok := v.runs[from]; !ok {
		return nil
	}
	return v.session
}

// end removes s and returns the runs that know it.
func (l *localSessions) end(s *protocol.Session) (runs []wire.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.byID[s.ID]
	delete(l.byID, s.ID)
	if v == nil {
		return nil
	}
	for to := range v.runs {
		runs = append(runs, to)
	}
	return runs
}

// forget removes a run from all sessions.
func (l *localSessions) forget(run wire.Address) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.byID {
		delete(v.runs, run)
	}
}
