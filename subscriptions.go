package exthost

import (
	"context"
	"encoding/json"

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

// drop forgets a session that has ended.
func (s subscriptions) drop(who *protocol.Session) {
	for to := range s {
		s.remove(to, who)
	}
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
	return subscribed{r.target, uri, r.target.older != nil && r.target.groupOf(r.call.Session) == r.target.older}
}

// resubscribe tells a new instance what its predecessor was asked to watch.
func (i *instance) resubscribe(ctx context.Context) {
	h := i.extension.host
	var uris []string
	h.mu.Lock()
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
	for _, uri := range uris {
		params := append(append([]byte(`{"uri":`), quote(uri)...), '}')
		if _, err := i.Call(ctx, &runtime.Request{Method: methodSubscribe, Params: params}); err != nil {
			i.extension.log.Warn("a subscription could not be renewed", "uri", uri, "error", err)
		}
	}
}
