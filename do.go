package exthost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/tools"
)

// Do takes one exchange through the host: governance, hooks, validation,
// admission, the extension, and back. Every front and every other method of Host
// that reaches an extension ends here. The result is the bytes the extension
// sent; an error is always a *protocol.Error.
func (h *Host) Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error) {
	if len(c.Params) > 0 {
		if err := rawjson.Check(c.Params); err != nil { // or they could end the frame they are put into
			return nil, protocol.Errorf(protocol.InvalidJSON, "the params of %s are not JSON: %w", c.Method, err)
		}
	}
	if c.Notify && !strings.HasPrefix(c.Method, "notifications/") {
		return nil, protocol.Errorf(protocol.ToolNotFound, "%q is a request, and was sent as a notification", c.Method)
	}
	if c.Method != protocol.MethodToolsCall {
		c, err := h.resolve(ctx, c)
		if err != nil {
			return nil, err
		}
		return h.exchange(ctx, c, nil)
	}
	t, err := readToolCall(c.Params)
	if err != nil {
		return nil, err
	}
	return h.exchange(ctx, c, t)
}

// Call calls a tool by its registered name. args is anything that encodes to a
// JSON object; a json.RawMessage goes out as it is, nil means {}. A tool that ran
// and reports failure is a result with IsError; err is a *protocol.Error for
// everything that kept it from answering.
func (h *Host) Call(ctx context.Context, tool string, args any) (protocol.ToolResult, error) {
	arguments, err := encodeArguments(args)
	if err != nil {
		return nil, err
	}
	t := toolCall{name: tool, arguments: arguments}
	t.normalize()
	result, err := h.exchange(ctx, &anonymous, &t)
	return protocol.ToolResult(result), err
}

// anonymous is what a Go caller asks for; the tool and its arguments are beside it.
var anonymous = protocol.Call{Method: protocol.MethodToolsCall}

// exchange is Do once the params of a tool call have been read, and are t.
func (h *Host) exchange(ctx context.Context, c *protocol.Call, t *toolCall) (json.RawMessage, error) {
	if h.opts.Inspect {
		return nil, protocol.Errorf(protocol.NotReady, "the host was opened with Inspect, and makes no calls")
	}
	r, err := h.route(ctx, c, t)
	if err != nil {
		h.tally.astray(err)
		return nil, err
	}
	defer r.gen.leave()
	began := h.feed.clock()
	err = r.gen.policy.Govern(ctx, &r.exchange, r.send, r.legs()...)
	h.account(r, began, err)
	if err != nil {
		return nil, r.blame(err)
	}
	response := r.exchange.Response
	r.recycle()
	return response, nil
}

func encodeArguments(args any) (json.RawMessage, error) {
	switch args := args.(type) {
	case nil:
		return json.RawMessage("{}"), nil
	case json.RawMessage:
		if len(args) == 0 {
			return json.RawMessage("{}"), nil
		}
		if err := rawjson.Check(args); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "arguments are not JSON: %w", err)
		}
		return args, nil
	}
	arguments, err := json.Marshal(args)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, "arguments do not encode to JSON: %w", err)
	}
	return arguments, nil
}

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
	r, err := h.enter().route(c, t)
	if (err != nil || isListing(c.Method)) && !h.isSettled() {
		ctx, cancel := context.WithDeadline(ctx, h.openedAt.Add(startPatience))
		_ = h.Ready(ctx) // late extensions are announced with list_changed
		cancel()
		if err == nil {
			r.gen.leave()
		}
		r, err = h.enter().route(c, t)
	}
	if r != nil {
		r.host = h
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
			return nil, unknownExtension(c.Extension)
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

func unknownExtension(id string) error {
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

// listTools answers tools/list for all extensions or for one, with what the caller
// may see.
func (g *generation) listTools(caller, extension string, params json.RawMessage) (json.RawMessage, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "tools/list: %w", err)
		}
	}
	list, next, err := g.catalog.Page(extension, p.Cursor, listPage, func(e *tools.Entry) bool { return g.policy.Visible(caller, e.Extension, e.Name) })
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, 4096), `{"tools":[`...)
	out = append(append(out, bytes.Join(raw(list), []byte(","))...), ']')
	if next != "" {
		out = append(append(out, `,"nextCursor":`...), quote(next)...)
	}
	return append(out, '}'), nil
}

// listPage is how many tools one answer to tools/list holds.
const listPage = 500

func raw(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}

// send carries the exchange out once governance has let it through.
func (r *routed) send(ctx context.Context, x *governance.Exchange) (err error) {
	switch {
	case r.entry != nil && r.target == nil:
		x.Response, err = r.callOwn(x)
	case r.isToolCall():
		err = r.callTool(ctx, x)
	case r.target != nil:
		if x.Response, err = r.forward(ctx, x.Request); err == nil && x.Method == protocol.MethodToolsList {
			x.Response = r.visible(x.Response)
		}
	case x.Method == protocol.MethodToolsList:
		x.Response, err = r.gen.listTools(x.Caller, x.Extension, x.Request)
	default:
		c := *r.call
		c.Params = x.Request
		x.Response, err = r.host.forAll(ctx, &c)
	}
	return err
}

func (r *routed) callTool(ctx context.Context, x *governance.Exchange) (err error) {
	if err := r.beforeCall(ctx, x); err != nil {
		return err
	}
	if r.entry != nil { // what a destination's arguments may be is its own to say
		if err := r.entry.Validate(r.arguments(x)); err != nil {
			return err
		}
	}
	r.hooked.called = true
	x.Response, err = r.forward(ctx, x.Request)
	return err
}

// forward gives the request to an instance of the target and waits for its answer.
// One that died over it is followed by another, once, if the operator and the tool
// allow that. When the second never got it, the first is the outcome: it may have
// been carried out.
func (r *routed) forward(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	result, err := r.deliver(ctx, params)
	if !r.replays(err) || ctx.Err() != nil {
		return result, err
	}
	r.target.log.Info("sent again, since its process ended before the answer", "tool", r.entry.Name, "reason", message(err))
	r.exchange.Replayed = true
	again, second := r.deliver(ctx, params)
	if second != nil && !reached(second) {
		return nil, err
	}
	return again, second
}

// deliver sends the request once. One that an ending instance never got goes to the
// next, once.
func (r *routed) deliver(ctx context.Context, params json.RawMessage) (json.RawMessage, error) {
	result, unsent, err := r.try(ctx, params)
	if unsent && ctx.Err() == nil {
		result, _, err = r.try(ctx, params)
	}
	return result, err
}

// try is one attempt. unsent says that the instance ended before it got the
// request.
func (r *routed) try(ctx context.Context, params json.RawMessage) (result json.RawMessage, unsent bool, err error) {
	i, release, err := r.target.acquire(ctx, r.call.Session, instanceKey(r.call))
	if err != nil {
		r.target.calls.refused.Add(1)
		return nil, false, err
	}
	began := time.Now()
	if r.call.Notify {
		err = i.Notify(ctx, r.call.Method, params)
	} else {
		result, err = r.converse(ctx, i, params)
	}
	took := time.Since(began)
	r.hooked.took += took
	r.target.calls.record(took, params, result, err)
	release(err)
	e, ok := errors.AsType[*protocol.Error](err)
	return result, ok && e.Outcome == "" && processEnded(err), err
}

// instanceKey says which instance of a per_session extension c belongs to.
func instanceKey(c *protocol.Call) string {
	if c.Session == nil {
		return ""
	}
	return sessionKey(c.Session)
}

// What keys of instances begin and end with.
const (
	sessionPrefix   = "session "
	statelessSuffix = " stateless"
)

func sessionKey(s *protocol.Session) string {
	key := sessionPrefix + s.ID
	if s.ID == "" {
		if key = "caller " + s.Caller; len(s.Env) > 0 {
			key += " with " + digest(s.Env)
		}
	}
	if s.ID == "" && s.Caller == "" && len(s.Env) == 0 {
		return "" // one instance for everybody without a name
	}
	if s.Version >= protocol.MCP20260728 {
		key += statelessSuffix // a child session serves one era
	}
	return key
}

// blame makes err a *protocol.Error that names the extension and the tool.
func (r *routed) blame(err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) {
		kind := protocol.KindOf(err)
		if kind == "" {
			kind = protocol.ExtensionError
		}
		e = protocol.Errorf(kind, "%w", err)
	}
	named := *e // errors may be shared between calls that fail together
	if named.Extension == "" && r.target != nil {
		named.Extension = r.target.candidate.ID
	}
	if named.Tool == "" {
		named.Tool = r.exchange.Tool
	}
	return &named
}
