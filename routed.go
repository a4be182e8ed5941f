package exthost

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// routed is an exchange that knows where it goes.
type routed struct {
	exchange governance.Exchange
	call     *protocol.Call
	host     *Host
	gen      *generation
	target   *extension // nil: the host answers, for all
	entry    *tools.Entry
	sent     toolCall        // of a tool call: what exchange.Request was made of
	request  json.RawMessage // exchange.Request as it was made
	hooked   hooked
	asked    runtime.Request // what an instance was given last
}

// unused are of type *routed. An exchange of no interest to anybody is the usual
// one, and most of what it allocates is this.
var unused sync.Pool

func newRouted() *routed {
	if r, ok := unused.Get().(*routed); ok {
		return r
	}
	return new(routed)
}

// recycle ends r, which succeeded. Policies, hooks and what asks a caller may keep
// what they were shown.
func (r *routed) recycle() {
	if r.exchange.ID == "" && r.hooked.id == "" && r.call.Client == nil {
		*r = routed{}
		unused.Put(r)
	}
}

// isToolCall reports whether sent counts.
func (r *routed) isToolCall() bool { return r.call.Method == protocol.MethodToolsCall }

// startPatience is how long after Open a caller that comes before the extensions
// have started is kept waiting for them.
const startPatience = 5 * time.Second

// route finds out whom c is for. Only a caller that asks for what is not there
// yet waits for the extensions to start.
func (h *Host) route(ctx context.Context, c *protocol.Call, t *toolCall) (*routed, error) {
	settled := h.isSettled() // asked first: what is missing may come in between
	r, err := h.enter().route(c, t)
	if (err != nil || isListing(c.Method)) && !settled {
		ctx, cancel := context.WithDeadline(ctx, h.openedAt.Add(startPatience))
		_ = h.Ready(ctx) // late extensions are announced with list_changed
		cancel()
		if err == nil {
			r.gen.leave()
		}
		r, err = h.enter().route(c, t)
	}
	if r == nil {
		return nil, err
	}
	r.host = h
	if r.exchange.Tool == "" {
		r.exchange.Tool = h.tasks.toolOf(c)
	}
	return r, err
}

func (h *Host) isSettled() bool {
	select {
	case <-h.settled:
		return true
	default:
		return false
	}
}

// route finds out whom c is for. With nobody to go to the generation is left.
func (g *generation) route(c *protocol.Call, t *toolCall) (_ *routed, err error) {
	r := newRouted()
	r.call, r.gen = c, g
	if t != nil {
		r.sent = *t
	}
	defer func() {
		if err != nil {
			g.leave()
		}
	}()
	r.exchange = governance.Exchange{Method: c.Method, Extension: c.Extension, ToChild: true, Notify: c.Notify, Request: c.Params}
	if s := c.Session; s != nil {
		r.exchange.Caller, r.exchange.Session = s.Caller, s.ID
	}
	if c.Extension != "" {
		if r.target = g.target(c.Extension); r.target == nil {
			return nil, unknownExtension(c.Extension, nil)
		}
	}
	switch {
	case t != nil && r.target != nil && r.target.bridge != nil:
		r.exchange.Tool = r.target.bridge.canonical(t.name)
		r.exchange.Request = t.params(t.name)
	case t != nil:
		err = g.routeTool(r)
	case c.Method == protocol.MethodToolsList && (r.target == nil || r.target.bridge == nil):
		r.target = nil
	case r.target == nil && c.Method != methodLevel && !isListing(c.Method):
		err = protocol.Errorf(protocol.ToolNotFound, "method %q is not served here", c.Method)
	}
	return r, err
}

// unknownExtension says that there is no such extension, and which of those that the
// asker may know was meant.
func unknownExtension(id string, known []string) error {
	if near := nearest.Of(id, known); near != "" {
		return protocol.Errorf(protocol.ToolNotFound, "there is no extension %q, did you mean %q?", id, near)
	}
	return protocol.Errorf(protocol.ToolNotFound, "there is no extension %q; exthost list shows those there are", id)
}

// routeTool resolves the tool's name and writes the params as the extension will
// be sent them, so that policies see exactly that.
func (g *generation) routeTool(r *routed) error {
	var ok bool
	if r.call.Extension == "" {
		r.entry, ok = g.catalog.Lookup(r.sent.name)
	} else {
		r.entry, ok = g.catalog.LookupIn(r.call.Extension, r.sent.name)
	}
	if !ok { // a policy withholds it, and says so
		r.entry, ok = g.catalog.Withheld(r.call.Extension, r.sent.name)
	}
	if !ok {
		return g.unknownTool(r.call.Extension, r.sent.name)
	}
	r.target = g.extensions[r.entry.Extension]
	r.exchange.Extension, r.exchange.Tool = r.entry.Extension, r.entry.Name
	r.request = r.sent.params(r.entry.Tool)
	r.exchange.Request = r.request
	return nil
}

// unknownTool names the tool that was most likely meant.
func (g *generation) unknownTool(extension, name string) error {
	var known []string
	for _, e := range g.catalog.Entries() {
		if extension == "" {
			known = append(known, e.Name)
		} else if e.Extension == extension {
			known = append(known, e.Tool)
		}
	}
	text := fmt.Sprintf("there is no tool %q", name)
	if near := nearest.Of(name, known); near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return protocol.Errorf(protocol.ToolNotFound, "%s", text)
}
