package exthost

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// What the host can relay between an extension and whoever calls it.
var (
	relayedMCP    = json.RawMessage(`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"context":{},"tools":{}}}`)
	relayedNative = json.RawMessage(`{"message":{},"progress":{}}`)
)

// relayed is what an instance is told that it may ask for: what its session's
// client can do where it has one of its own, else what the host can pass on.
func (x *extension) relayed(t manifest.Transport, key string) json.RawMessage {
	if t.Protocol != manifest.ProtocolMCP {
		return relayedNative
	}
	if s := x.host.sessionOf(x, key); s != nil && len(s.Capabilities) > 0 {
		return s.Capabilities
	}
	return relayedMCP
}

// sessionOf returns the session that the instance of that key belongs to, nil when
// it is nobody's alone.
func (h *Host) sessionOf(x *extension, key string) *protocol.Session {
	if !x.options.Instances.PerSession() || !strings.HasPrefix(key, sessionPrefix) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sessions {
		if s.ID != "" && sessionKey(s) == key {
			return s
		}
	}
	return nil
}

// incoming takes what the instance asks and tells outside any call, or in the midst
// of the calls of several. An instance of one session speaks to that; of others only
// what is addressed by a subscription, or concerns everybody, is passed on.
func (i *instance) incoming(ctx context.Context, method string, params json.RawMessage, notify bool) (json.RawMessage, error) {
	h := i.extension.host
	if notify {
		for _, s := range h.audience(i, method, params) {
			if _, err := h.say(ctx, i.extension, s, method, params, true); err != nil {
				h.log.Debug("a client was not told", "extension", i.extension.candidate.ID, "method", method, "session", s.ID, "error", err)
			}
		}
		return nil, nil
	}
	s := h.sessionOf(i.extension, i.key)
	if _, about, known := i.taskOf(params); known && s == nil {
		s = about.session
	}
	if s != nil && s.Client != nil {
		return h.say(ctx, i.extension, s, method, params, false)
	}
	i.extension.log.Warn("it asked for something, and no call says whom; it is refused", "method", method,
		"next", `runtime.instances = "per_session" gives each session an instance of its own`)
	return nil, protocol.Errorf(protocol.ToolNotFound, "%s: nobody can be asked: this host runs one instance for several sessions, and the request belongs to no call of exactly one of them", method)
}

// Notifications that concern whoever uses the extension.
const (
	resourcesChanged = "notifications/resources/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourceUpdated  = "notifications/resources/updated"
)

// audience returns the sessions that a notification is for.
func (h *Host) audience(i *instance, method string, params json.RawMessage) (to []*protocol.Session) {
	x := i.extension
	if own := h.sessionOf(x, i.key); own != nil {
		return []*protocol.Session{own}
	}
	uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch method {
	case resourceUpdated:
		return h.subscriptions.of(subscribed{x, uri, i.older})
	case taskStatus:
		id, _ := rawjson.Text(rawjson.Get(params, "taskId"))
		status, _ := rawjson.Text(rawjson.Get(params, "status"))
		if s := h.tasks.told(i.taskKey(id), status); h.sessions[s] != nil {
			to = append(to, s)
		}
	case resourcesChanged, promptsChanged, protocol.MethodToolsListChanged:
		for s := range h.sessions {
			if (s.Extension == "" || s.Extension == x.candidate.ID) && x.forOlder(s) == i.older {
				to = append(to, s)
			}
		}
	}
	return to
}

// say carries what x asks or tells s outside a call, by the same path as a call
// with the ends swapped.
func (h *Host) say(ctx context.Context, x *extension, s *protocol.Session, method string, params json.RawMessage, notify bool) (json.RawMessage, error) {
	if method == protocol.MethodMessage && !h.hears(s, params) {
		return nil, nil
	}
	if s.Client == nil {
		return nil, protocol.Errorf(protocol.ToolNotFound, "the client cannot be reached")
	}
	e := &governance.Exchange{Method: method, Caller: s.Caller, Session: s.ID, Extension: x.candidate.ID, Notify: notify, Request: params}
	g := h.enter()
	defer g.leave()
	err := g.policy.Govern(ctx, e, func(ctx context.Context, e *governance.Exchange) (err error) {
		if e.Notify {
			return s.Client.Notify(ctx, e.Method, e.Request)
		}
		e.Response, err = s.Client.Call(ctx, e.Method, e.Request)
		return err
	})
	return e.Response, err
}
