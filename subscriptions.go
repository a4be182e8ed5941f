package exthost

import (
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// The requests by which clients follow a resource.
const (
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
)

// subscribed is a resource that somebody follows, at the instances of one era.
type subscribed struct {
	extension *extension
	uri       string
	older     bool
}

// subscriptions are the sessions that follow resources. The extension knows one
// follower, the host; who is behind it is known here.
type subscriptions map[subscribed]map[*protocol.Session]struct{}

func (s subscriptions) add(to subscribed, who *protocol.Session) {
	if s[to] == nil {
		s[to] = make(map[*protocol.Session]struct{})
	}
	s[to][who] = struct{}{}
}

// remove reports whether nobody is left.
func (s subscriptions) remove(to subscribed, who *protocol.Session) (last bool) {
	delete(s[to], who)
	if len(s[to]) > 0 {
		return false
	}
	delete(s, to)
	return true
}

// drop forgets a session that has ended and returns what nobody follows any more.
func (s subscriptions) drop(who *protocol.Session) (idle []subscribed) {
	for to, all := range s {
		if _, is := all[who]; is && s.remove(to, who) {
			idle = append(idle, to)
		}
	}
	return idle
}

// unsubscribeTimeout bounds what the end of a session can cost.
const unsubscribeTimeout = 2 * time.Second

// unsubscribe tells extensions what nobody follows any more. Those with an instance
// for each session lose it with the session.
func unsubscribe(idle []subscribed) {
	ctx, cancel := context.WithTimeout(context.Background(), unsubscribeTimeout)
	defer cancel()
	for _, from := range idle {
		if from.extension.options.Instances.PerSession() {
			continue
		}
		group, key := from.extension.group, ""
		if from.older {
			group, key = from.extension.older, olderKey
		}
		i, release, err := group.Acquire(ctx, key)
		if err != nil {
			continue // and when it comes back nobody subscribes
		}
		_, err = i.Call(ctx, &runtime.Request{Method: methodUnsubscribe, Params: ofURI(from.uri)})
		release(err)
	}
}

func ofURI(uri string) json.RawMessage {
	return append(append([]byte(`{"uri":`), quote(uri)...), '}')
}

func (s subscriptions) of(to subscribed) (all []*protocol.Session) {
	for who := range s[to] {
		all = append(all, who)
	}
	return all
}

// follow notes what a request to subscribe or unsubscribe came to. It reports
// false for one that must not reach the extension, because others still follow
// the resource.
func (r *routed) follows(params json.RawMessage) (pass bool) {
	s := r.call.Session
	if r.call.Method != methodUnsubscribe || s == nil {
		return true
	}
	h := r.target.host
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscriptions.remove(r.subscribed(params), s)
}

// followed notes that the extension has taken a subscription.
func (r *routed) followed(params json.RawMessage) {
	h, s := r.target.host, r.call.Session
	if r.call.Method != methodSubscribe || s == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, attached := h.sessions[s]; attached { // or nothing would ever end it
		h.subscriptions.add(r.subscribed(params), s)
	}
}

func (r *routed) subscribed(params json.RawMessage) subscribed {
	uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
	return subscribed{r.target, uri, r.target.forOlder(r.call.Session)}
}

// catchUp tells a new instance what its predecessor was asked to watch and to log.
func (i *instance) catchUp(ctx context.Context) {
	if i.extension.policy != nil {
		return
	}
	h := i.extension.host
	var uris []string
	loudest := len(levels)
	h.mu.Lock()
	for s, at := range h.levels {
		if (s.Extension == "" || s.Extension == i.extension.candidate.ID) && isOlder(s) && (!i.extension.options.Instances.PerSession() || sessionKey(s) == i.key) {
			loudest = min(loudest, at)
		}
	}
	for to, who := range h.subscriptions {
		if to.extension != i.extension || to.older != i.older {
			continue
		}
		for s := range who {
			if !i.extension.options.Instances.PerSession() || sessionKey(s) == i.key {
				uris = append(uris, to.uri)
				break
			}
		}
	}
	h.mu.Unlock()
	if hs := i.Handshake(); offers(hs, "logging") && hs.Era < protocol.MCP20260728 && i.louder(loudest) {
		i.setLevel(ctx, loudest)
	}
	for _, uri := range uris {
		if _, err := i.Call(ctx, &runtime.Request{Method: methodSubscribe, Params: ofURI(uri)}); err != nil {
			i.extension.log.Warn("a subscription could not be renewed", "uri", uri, "error", err)
		}
	}
}
