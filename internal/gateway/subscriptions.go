package gateway

import (
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// subscription is a resource that sessions follow, at the instances of one era.
type subscription struct {
	unit   *unit.Unit
	uri    string
	legacy bool
}

// subscriptions are the sessions that follow resources. The extension knows one
// subscriber, the host.
type subscriptions map[subscription]map[*protocol.Session]struct{}

func (s subscriptions) add(to subscription, who *protocol.Session) {
	if s[to] == nil {
		s[to] = make(map[*protocol.Session]struct{})
	}
	s[to][who] = struct{}{}
}

// remove reports whether no session follows the resource any more.
func (s subscriptions) remove(to subscription, who *protocol.Session) (last bool) {
	delete(s[to], who)
	if len(s[to]) > 0 {
		return false
	}
	delete(s, to)
	return true
}

// drop removes a session that has ended, and returns the resources that no session follows
// any more.
func (s subscriptions) drop(who *protocol.Session) (idle []subscription) {
	for to, all := range s {
		if _, is := all[who]; is && s.remove(to, who) {
			idle = append(idle, to)
		}
	}
	return idle
}

func (s subscriptions) sessions(of subscription) (all []*protocol.Session) {
	for who := range s[of] {
		all = append(all, who)
	}
	return all
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
		i, release, err := s.unit.AcquireEra(ctx, s.legacy)
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

// SharedSubscriptions is the [dispatch.Stage] that lets several sessions follow one
// resource: a request to unsubscribe reaches the extension when the last of them makes it.
func (g *Gateway) SharedSubscriptions(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		s := c.Request.Session
		if s == nil {
			return next(ctx, c, params)
		}
		if c.Request.Method == protocol.MethodResourcesUnsubscribe {
			g.mu.Lock()
			last := g.subscriptions.remove(subscribed(c, params), s)
			g.mu.Unlock()
			if !last {
				return json.RawMessage("{}"), nil
			}
		}
		result, err := next(ctx, c, params)
		if err == nil && c.Request.Method == protocol.MethodResourcesSubscribe {
			g.mu.Lock()
			defer g.mu.Unlock()
			if _, attached := g.sessions[s]; attached { // the end of any other session would go unnoticed
				g.subscriptions.add(subscribed(c, params), s)
			}
		}
		return result, err
	}
}

func subscribed(c *dispatch.Call, params json.RawMessage) subscription {
	uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
	u := c.Target.Base()
	return subscription{u, uri, u.ServesLegacy(c.Request.Session)}
}

// Resume brings the subscriptions and the log level of sessions to a new instance.
func (g *Gateway) Resume(ctx context.Context, i *unit.Instance) {
	uris, level := g.wanted(i)
	if hs := i.Handshake(); level < len(logLevels) && offers(hs, "logging") && protocol.EraOf(hs.Era) != protocol.EraModern && i.LowerLogLevel(level) {
		setLevel(ctx, i, level)
	}
	for _, uri := range uris {
		if _, err := i.Call(ctx, &runtime.Request{Method: protocol.MethodResourcesSubscribe, Params: uriParams(uri)}); err != nil {
			i.Unit.Log.Warn("a subscription could not be renewed", "uri", uri, "error", err)
		}
	}
}

// wanted returns the resources that sessions follow at i, and the lowest log level that
// they asked for.
func (g *Gateway) wanted(i *unit.Instance) (uris []string, level int) {
	concerns := func(s *protocol.Session) bool { return !i.Unit.PerSession() || unit.SessionKey(s) == i.Key }
	level = len(logLevels)
	g.mu.Lock()
	defer g.mu.Unlock()
	for s, at := range g.logLevels {
		if (s.Extension == "" || s.Extension == i.Unit.ID()) && protocol.EraOf(s.Version) == protocol.EraLegacy && concerns(s) {
			level = min(level, at)
		}
	}
	for to, sessions := range g.subscriptions {
		if to.unit != i.Unit || to.legacy != i.Legacy {
			continue
		}
		for s := range sessions {
			if concerns(s) {
				uris = append(uris, to.uri)
				break
			}
		}
	}
	return uris, level
}
