package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// subscription is a resource that sessions follow, at the instances for legacy or those for modern clients.
type subscription struct {
	unit   *unit.Unit
	uri    string
	legacy bool
}

// Subscriptions are the sessions that follow resources. The extension knows one subscriber,
// the host.
type Subscriptions struct {
	sessions *Sessions

	mu    sync.Mutex // guards the fields below
	to    map[subscription]map[*protocol.Session]struct{}
	bytes map[*protocol.Session]int // of what each session follows
}

func newSubscriptions(s *Sessions) *Subscriptions {
	return &Subscriptions{sessions: s, to: make(map[subscription]map[*protocol.Session]struct{}), bytes: make(map[*protocol.Session]int)}
}

// maxFollowed bounds the URIs of the resources that one session follows, in bytes, with overhead
// for each.
const maxFollowed = 256 << 10

// cost is what a subscription counts against maxFollowed.
func (to subscription) cost() int { return len(to.uri) + 256 }

// hasRoom reports whether a session may follow one more resource.
func (l *Subscriptions) hasRoom(to subscription, who *protocol.Session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, follows := l.to[to][who]
	return follows || l.bytes[who]+to.cost() <= maxFollowed
}

func (l *Subscriptions) add(to subscription, who *protocol.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to[to] == nil {
		l.to[to] = make(map[*protocol.Session]struct{})
	}
	if _, follows := l.to[to][who]; !follows {
		l.to[to][who] = struct{}{}
		l.bytes[who] += to.cost()
	}
}

// remove reports whether no session follows the resource any more.
func (l *Subscriptions) remove(to subscription, who *protocol.Session) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, follows := l.to[to][who]; follows {
		delete(l.to[to], who)
		if l.bytes[who] -= to.cost(); l.bytes[who] == 0 {
			delete(l.bytes, who)
		}
	}
	if len(l.to[to]) > 0 {
		return false
	}
	delete(l.to, to)
	return true
}

func (l *Subscriptions) followedBy(who *protocol.Session) (list []subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for to, all := range l.to {
		if _, is := all[who]; is {
			list = append(list, to)
		}
	}
	return list
}

func (l *Subscriptions) sessionsOf(to subscription) []*protocol.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.to[to]))
}

// drop removes a session that has ended, and returns the resources that no session follows
// any more.
func (l *Subscriptions) drop(s *protocol.Session) (idle []subscription) {
	for _, to := range l.followedBy(s) {
		if l.remove(to, s) {
			idle = append(idle, to)
		}
	}
	return idle
}

// unsubscribeTimeout bounds what the end of a session can cost.
const unsubscribeTimeout = 2 * time.Second

// unsubscribe tells extensions which resources no session follows any more. An instance of
// one session ends with the session.
func unsubscribe(idle []subscription) {
	ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
	defer cancel()
	for _, s := range idle {
		if s.unit.PerSession() {
			continue
		}
		acquire := func(ctx context.Context) (*unit.Instance, func(error), error) { return s.unit.AcquireKey(ctx, "") }
		if s.legacy {
			acquire = s.unit.Legacy.Acquire
		}
		i, release, err := acquire(ctx)
		if err != nil {
			continue // the next instance is not asked to subscribe
		}
		_, err = i.Call(ctx, &runtime.Request{Method: protocol.MethodResourcesUnsubscribe, Params: uriParams(s.uri)})
		release(err)
	}
}

func uriParams(uri string) json.RawMessage {
	return append(append([]byte(`{"uri":`), rawjson.Quote(uri)...), '}')
}

// Shared is the [dispatch.Stage] that lets several sessions follow one resource: a request
// to unsubscribe reaches the extension when the last of them makes it.
func (l *Subscriptions) Shared(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		s := c.Request.Session
		if s != nil && c.Request.Method == protocol.MethodResourcesUnsubscribe && !l.remove(subscribed(c, params), s) {
			return json.RawMessage("{}"), nil
		}
		if s != nil && c.Request.Method == protocol.MethodResourcesSubscribe && !l.hasRoom(subscribed(c, params), s) {
			return nil, protocol.Errorf(protocol.Overloaded, "this client follows too many resources: their URIs may have %d bytes together", maxFollowed)
		}
		result, err := next(ctx, c, params)
		if s != nil && err == nil && c.Request.Method == protocol.MethodResourcesSubscribe {
			l.sessions.IfAttached(s, func() { l.add(subscribed(c, params), s) })
		}
		return result, err
	}
}

func subscribed(c *dispatch.Call, params json.RawMessage) subscription {
	uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
	u := c.Target.Base()
	return subscription{u, uri, u.Legacy.Serves(c.Request.Session)}
}

// resume subscribes a new instance to the resources that its sessions follow.
func (l *Subscriptions) resume(ctx context.Context, i *unit.Instance) {
	for _, uri := range l.wanted(i) {
		if _, err := i.Call(ctx, &runtime.Request{Method: protocol.MethodResourcesSubscribe, Params: uriParams(uri)}); err != nil {
			i.Unit.Log.Warn("a subscription could not be renewed", "uri", uri, "error", err)
		}
	}
}

func (l *Subscriptions) wanted(i *unit.Instance) (uris []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for to, sessions := range l.to {
		if to.unit != i.Unit || to.legacy != i.Legacy {
			continue
		}
		for s := range sessions {
			if concerns(i, s) {
				uris = append(uris, to.uri)
				break
			}
		}
	}
	return uris
}
