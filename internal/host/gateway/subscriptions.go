package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// subscription is a resource that sessions follow, at one instance or at the shared instances of a unit.
type subscription struct {
	unit *unit.Unit
	key  string // see [unit.Instance.OwnKey]
	uri  string
}

// followers are the sessions that follow one resource.
type followers struct {
	sessions map[*protocol.Session]struct{}
	turn     chan struct{} // holds a value while a request about the resource is in flight
	users    int           // sessions that hold the turn or wait for it
}

// Subscriptions are the sessions that follow resources. To the extension, the host is the only subscriber. No other
// table of a host says which sessions follow a resource. Related state is elsewhere:
//   - another node knows the sessions that follow resources of its extensions, also sessions of this host;
//   - package runtime holds the open request for each resource of a modern server;
//   - package mcpserver stores the resources that the client of a subscriptions/listen has named;
//   - the relay of a client on stdio stores that client's requests, to repeat them to the next host.
type Subscriptions struct {
	sessions *Sessions

	mu    sync.Mutex // guards the fields below
	to    map[subscription]*followers
	bytes map[*protocol.Session]int // cost of what each session follows
}

func newSubscriptions(s *Sessions) *Subscriptions {
	return &Subscriptions{
		sessions: s,
		to:       make(map[subscription]*followers),
		bytes:    make(map[*protocol.Session]int),
	}
}

// maxFollowed bounds the resources that one session follows, in bytes of their URIs with overhead.
const maxFollowed = 256 << 10

// cost returns how many bytes of maxFollowed a subscription uses.
func (to subscription) cost() int { return len(to.uri) + 256 }

// hasRoom reports whether a session may follow one more resource.
func (l *Subscriptions) hasRoom(to subscription, who *protocol.Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.follows(to, who) || l.bytes[who]+to.cost() <= maxFollowed
}

// follows reports whether a session follows a resource. It is called with the lock held.
func (l *Subscriptions) follows(to subscription, who *protocol.Session) bool {
	f := l.to[to]
	if f == nil {
		return false
	}
	_, is := f.sessions[who]
	return is
}

// of returns the followers of a resource. It is called with the lock held.
func (l *Subscriptions) of(to subscription) *followers {
	f := l.to[to]
	if f == nil {
		f = &followers{sessions: make(map[*protocol.Session]struct{}), turn: make(chan struct{}, 1)}
		l.to[to] = f
	}
	return f
}

// forget removes the entry of a resource without followers. It is called with the lock held.
func (l *Subscriptions) forget(to subscription) {
	if f := l.to[to]; f != nil && len(f.sessions) == 0 && f.users == 0 {
		delete(l.to, to)
	}
}

// turn waits until no other request about the resource is in flight, so that the last request sent matches the
// followers. The caller must call end after its own request.
func (l *Subscriptions) turn(ctx context.Context, to subscription) (end func(), err error) {
	l.mu.Lock()
	f := l.of(to)
	f.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		f.users--
		l.forget(to)
	}
	select {
	case f.turn <- struct{}{}:
		return func() { <-f.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, protocol.Errorf(protocol.Overloaded,
				"the extension is still busy with another request about %s: %w", to.uri, ctx.Err())
		}
		return nil, protocol.Errorf(protocol.Canceled,
			"given up while the extension answers another request about %s: %w", to.uri, ctx.Err())
	}
}

func (l *Subscriptions) add(to subscription, who *protocol.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.follows(to, who) {
		l.of(to).sessions[who] = struct{}{}
		l.bytes[who] += to.cost()
	}
}

// remove removes a follower, and reports whether it was the last.
func (l *Subscriptions) remove(to subscription, who *protocol.Session) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.of(to)
	if l.follows(to, who) {
		delete(f.sessions, who)
		if l.bytes[who] -= to.cost(); l.bytes[who] == 0 {
			delete(l.bytes, who)
		}
	}
	l.forget(to)
	return len(f.sessions) == 0
}

func (l *Subscriptions) followedBy(who *protocol.Session) (list []subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for to := range l.to {
		if l.follows(to, who) {
			list = append(list, to)
		}
	}
	return list
}

func (l *Subscriptions) sessionsOf(to subscription) []*protocol.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.to[to]
	if f == nil {
		return nil
	}
	return slices.Collect(maps.Keys(f.sessions))
}

// drop removes an ended session, and returns the resources that are left without followers.
func (l *Subscriptions) drop(s *protocol.Session) (idle []subscription) {
	for _, to := range l.followedBy(s) {
		if l.remove(to, s) {
			idle = append(idle, to)
		}
	}
	return idle
}

// unsubscribeIdle unsubscribes from resources without followers. An instance of one session ends with that
// session, and is not asked.
func (l *Subscriptions) unsubscribeIdle(ctx context.Context, idle []subscription) {
	for _, to := range idle {
		if !to.unit.PerSession() {
			l.unsubscribeFor(ctx, to)
		}
	}
}

// unsubscribeFor unsubscribes at a running instance, unless a session follows the resource again. It acquires the
// instance before the turn, as calls do: in the other order, sessions that wait for the turn would also wait for room
// in the instance.
func (l *Subscriptions) unsubscribeFor(ctx context.Context, to subscription) {
	i, release, err := to.unit.AcquireKey(ctx, to.key)
	if err != nil {
		return
	}
	err = context.Canceled // counts as no outcome, if no call follows
	defer func() { release(err) }()
	end, failed := l.turn(ctx, to)
	if failed != nil {
		return
	}
	defer end()
	if len(l.sessionsOf(to)) == 0 {
		_, err = i.Call(ctx, &runtime.Request{Method: protocol.MethodResourcesUnsubscribe, Params: uriParams(to.uri)})
	}
}

func uriParams(uri string) json.RawMessage {
	return append(append([]byte(`{"uri":`), rawjson.Quote(uri)...), '}')
}

// ShareSubscriptions is the [dispatch.Stage] that lets several sessions follow one resource: the extension is
// unsubscribed when the last of them leaves. Requests about extensions of another node are passed on, because that
// node shares resources between the sessions of all hosts.
func (l *Subscriptions) ShareSubscriptions(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		s, change := c.Request.Session, l.subscribe
		switch c.Request.Method {
		case protocol.MethodResourcesSubscribe:
		case protocol.MethodResourcesUnsubscribe:
			change = l.unsubscribe
		default:
			s = nil
		}
		if s == nil || c.Instance.IsRemoteNode() {
			return next(ctx, c, params)
		}
		// bounds the wait for the turn: else, while the extension does not answer, each request would wait for the
		// timeouts of all requests before it
		waiting := ctx
		if limit := c.Instance.Unit.Spec.Options.CallTimeout; limit > 0 {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		result := json.RawMessage("{}")
		uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
		err := change(waiting, subscriptionAt(c.Instance, uri), s, func() (err error) {
			result, err = next(ctx, c, params)
			return err
		})
		if err != nil {
			return nil, err
		}
		return result, nil
	}
}

// subscribe calls ask, which subscribes at the extension, and then adds the session.
func (l *Subscriptions) subscribe(ctx context.Context, to subscription, who *protocol.Session, ask func() error) error {
	if !l.hasRoom(to, who) {
		return protocol.Errorf(protocol.Overloaded,
			"this client follows too many resources: their URIs may have %d bytes together", maxFollowed)
	}
	end, err := l.turn(ctx, to)
	if err != nil {
		return err
	}
	defer end()
	if err := ask(); err != nil {
		return err
	}
	l.sessions.IfAttached(who, func() { l.add(to, who) })
	return nil
}

// unsubscribe removes the session. If it was the last follower, ask is called, which unsubscribes at the extension.
func (l *Subscriptions) unsubscribe(ctx context.Context, to subscription, who *protocol.Session, ask func() error,
) error {
	end, err := l.turn(ctx, to)
	if err != nil {
		return err
	}
	defer end()
	if !l.remove(to, who) {
		return nil
	}
	return ask()
}

// subscriptionAt returns the subscription for a URI of an instance.
func subscriptionAt(i *unit.Instance, uri string) subscription {
	return subscription{unit: i.Unit, key: i.OwnKey(), uri: uri}
}

// resume subscribes a new instance to the resources that its sessions follow.
func (l *Subscriptions) resume(ctx context.Context, i *unit.Instance) {
	for _, uri := range l.wanted(i) {
		r := &runtime.Request{Method: protocol.MethodResourcesSubscribe, Params: uriParams(uri)}
		if _, err := i.Call(ctx, r); err != nil {
			i.Unit.Log.Warn("a subscription could not be renewed", "uri", uri, "error", err)
		}
	}
}

func (l *Subscriptions) wanted(i *unit.Instance) (uris []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for to, f := range l.to {
		if to == subscriptionAt(i, to.uri) && len(f.sessions) > 0 {
			uris = append(uris, to.uri)
		}
	}
	return uris
}
