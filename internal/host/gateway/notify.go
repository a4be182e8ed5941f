package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/tasks"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// RouteToCaller is the [dispatch.Stage] that lets an instance reach the caller of the call in flight.
func (g *Gateway) RouteToCaller(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		if c.Request.Client != nil {
			c.Sent.Client = caller{g, c, c.Instance}
		}
		return next(ctx, c, params)
	}
}

// caller is the caller of a call as the instance sees it. Messages of the instance pass the policies of the call,
// with caller and extension swapped.
type caller struct {
	g    *Gateway
	call *dispatch.Call
	by   *unit.Instance
}

var _ protocol.Peer = caller{}

// Call implements [protocol.Peer].
func (u caller) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if u.isForAnother(params) {
		return u.g.Incoming(ctx, u.by, method, params, false)
	}
	return u.call.AskCaller(ctx, method, params)
}

// Notify implements [protocol.Peer].
func (u caller) Notify(ctx context.Context, method string, params json.RawMessage) error {
	if method == protocol.MethodMessage && !u.g.LogLevels.callAccepts(u.call, params) || u.notFromCaller(params) {
		return nil
	}
	if !hears(u.call.View, u.by.Unit.ID(), method, params) {
		return nil
	}
	return u.call.TellCaller(ctx, method, params)
}

// notFromCaller reports whether the message concerns a task that another caller started, or one that this caller may
// not see. Messages name no addressee: while one call is in flight, its caller is assumed to be the addressee.
func (u caller) notFromCaller(params json.RawMessage) bool {
	_, about, known := u.g.Tasks.Related(u.by, params)
	return known && (about.Caller != u.call.Caller() || !u.call.View.Has(u.by.Unit.ID(), about.Tool))
}

// isForAnother reports whether a request concerns a task of another caller, a task that this caller may not see, or,
// unless this call is about the task, one of another session of the same caller.
func (u caller) isForAnother(params json.RawMessage) bool {
	id, about, known := u.g.Tasks.Related(u.by, params)
	switch {
	case !known || about.Caller != u.call.Caller() || !u.call.View.Has(u.by.Unit.ID(), about.Tool):
		return known
	case about.Session == nil || about.Session == u.call.Request.Session:
		return false
	}
	own, _ := tasks.ID(u.call.Request.Method, u.call.Sent.Params)
	return own != id
}

// Incoming handles a request or notification of an instance outside of any call, or during calls of several sessions.
// An instance of one session reaches that session. A message of a shared instance reaches the sessions that follow
// its resource or have its task; a changed list is sent to all sessions.
func (g *Gateway) Incoming(ctx context.Context, i *unit.Instance, method string, params json.RawMessage, notify bool,
) (json.RawMessage, error) {
	_, about, related := g.Tasks.Related(i, params)
	// a session has no tasks of tools that its toolset hides
	hides := func(s *protocol.Session) bool {
		view, err := g.view(s)
		return related && (err != nil || !view.Has(i.Unit.ID(), about.Tool))
	}
	if notify {
		for _, s := range slices.DeleteFunc(g.audience(i, method, params), hides) {
			if _, err := g.forward(ctx, i.Unit, s, method, params, true); err != nil {
				g.o.Log.Debug("a client was not told", "extension", i.Unit.ID(), "method", method, "session", s.ID,
					"error", err)
			}
		}
		return nil, nil
	}
	s := i.Unit.Session(i.Key)
	if related && s == nil {
		s = about.Session
	}
	if s != nil && s.Client != nil {
		if hides(s) {
			return nil, errUnreachable()
		}
		return g.forward(ctx, i.Unit, s, method, params, false)
	}
	if method == protocol.MethodRootsList { // many servers ask at their start, and go on without an answer
		if !i.RefusedRoots.Swap(true) {
			i.Unit.Log.Info("answered roots/list with an error: it belongs to no call, and several clients share "+
				"this process", "next",
				"roots of "+i.Unit.ID()+
					", in extensions.entries or destinations of the configuration, states what to answer")
		}
	} else {
		i.Unit.Log.Warn("refused "+method+
			": it belongs to no call of one client, and several clients share this process",
			"next", `runtime.instances = "per_session" gives each session an instance of its own`)
	}
	return nil, protocol.Errorf(protocol.ToolNotFound,
		"%s: nobody can be asked: this host runs one instance for several sessions, and the request belongs to no "+
			"call of exactly one of them; with runtime.instances per_session each session has an instance of its own",
		method)
}

// Forward sends a request or notification of an instance to session s.
func (g *Gateway) Forward(ctx context.Context, i *unit.Instance, s *protocol.Session, method string,
	params json.RawMessage, notify bool) (json.RawMessage, error) {
	return g.forward(ctx, i.Unit, s, method, params, notify)
}

// audience returns the sessions that receive a notification.
func (g *Gateway) audience(i *unit.Instance, method string, params json.RawMessage) (to []*protocol.Session) {
	if own := i.Unit.Session(i.Key); own != nil {
		return []*protocol.Session{own}
	}
	switch method {
	case protocol.MethodResourceUpdated:
		uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
		return g.Subscriptions.sessionsOf(subscriptionAt(i, uri))
	case protocol.MethodTaskStatus:
		id, _ := rawjson.Text(rawjson.Get(params, "taskId"))
		status, _ := rawjson.Text(rawjson.Get(params, "status"))
		s, tool := g.Tasks.Watcher(tasks.KeyOf(i, id), status)
		if s == nil {
			break
		}
		if view, err := g.view(s); err == nil && view.Has(i.Unit.ID(), tool) {
			to = append(to, s)
		}
	case protocol.MethodResourcesListChanged, protocol.MethodPromptsListChanged, protocol.MethodToolsListChanged:
		for _, s := range g.Sessions.all() {
			if (s.Extension == "" || s.Extension == i.Unit.ID()) && i.Unit.Legacy.Serves(s) == i.InLegacyGroup() {
				to = append(to, s)
			}
		}
	}
	return to
}

// NotifyListed sends clients the notification method, which says that a list of u has changed: to all clients that
// see u or, unless i is nil, to the clients of that instance.
func (g *Gateway) NotifyListed(u *unit.Unit, i *unit.Instance, method string) {
	destination := g.o.Snapshots.Load().Destinations[u.ID()] != nil // seen by its own clients alone
	unseen := func(s *protocol.Session) bool {
		return s.Extension != u.ID() && (s.Extension != "" || destination)
	}
	to := slices.DeleteFunc(g.Sessions.all(), unseen)
	if i != nil {
		to = g.audience(i, method, nil)
	}
	for _, s := range to {
		g.o.Beside.Go(func() {
			ctx, cancel := context.WithTimeout(g.o.Closing, notifyTimeout)
			defer cancel()
			if _, err := g.forward(ctx, u, s, method, nil, true); err != nil {
				u.Log.Debug("a client was not told", "method", method, "session", s.ID, "error", err)
			}
		})
	}
}

// notifyTimeout bounds how long a slow client delays the notification of others.
const notifyTimeout = 2 * time.Second

// NotifyToolsChanged notifies clients of extensions that their list of tools has changed. A session is notified of
// every list if the definition of its toolset has changed. A search session is not notified while its own list is
// unchanged.
func (g *Gateway) NotifyToolsChanged(ctx context.Context) {
	now := g.o.Snapshots.Load()
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	other := g.told.changed(now, g.Sessions.all())
	g.Sessions.notify(ctx, func(s *protocol.Session) {
		if now.Destinations[s.Extension] != nil {
			return // a destination announces changes itself
		}
		changed := []string{protocol.MethodToolsListChanged}
		if s.Toolset != "" {
			changed = slices.Clone(other[s.Toolset])
		}
		same := g.lists.note(now, s)
		if !g.Sessions.IfAttached(s, func() {}) { // the session has ended; nothing else would remove the note
			g.lists.drop(s)
			return
		}
		if same {
			changed = slices.DeleteFunc(changed,
				func(method string) bool { return method == protocol.MethodToolsListChanged })
		}
		for _, method := range changed {
			if err := s.Client.Notify(ctx, method, nil); err != nil {
				g.o.Log.Debug("a client was not told of a new list", "session", s.ID, "method", method, "error", err)
			}
		}
	})
}

// hears reports whether a session with this view receives notifications of an extension.
func hears(view *toolset.View, extension, method string, params json.RawMessage) bool {
	if method == protocol.MethodResourcesListChanged {
		return view.MayHaveResources(extension)
	}
	return view.Check(extension, method, params) == nil
}

func errUnreachable() error {
	return protocol.Errorf(protocol.ToolNotFound, "the client cannot be reached")
}

// forward sends s a request or notification of u that belongs to no call. It passes the policies with caller and
// extension swapped.
func (g *Gateway) forward(ctx context.Context, u *unit.Unit, s *protocol.Session, method string, params json.RawMessage,
	notify bool) (json.RawMessage, error) {
	if method == protocol.MethodMessage && !g.LogLevels.accepts(s, params) {
		return nil, nil
	}
	view, err := g.view(s)
	if notify && (err != nil || !hears(view, u.ID(), method, params)) {
		return nil, nil
	}
	if s.Client == nil || err != nil || !view.Reaches(u.ID()) {
		return nil, errUnreachable()
	}
	e := &governance.Exchange{
		Method:    method,
		Caller:    s.Caller,
		Session:   s.ID,
		Instance:  s.Instance,
		Node:      s.Node,
		Extension: u.ID(),
		Notify:    notify,
		Request:   params,
	}
	now := g.o.Snapshots.Enter()
	defer now.Leave()
	err = now.Policies.Pipeline.Govern(ctx, e, func(ctx context.Context, e *governance.Exchange) (err error) {
		if e.Notify {
			return s.Client.Notify(ctx, e.Method, e.Request)
		}
		e.Response, err = s.Client.Call(ctx, e.Method, e.Request)
		return err
	})
	return e.Response, err
}
