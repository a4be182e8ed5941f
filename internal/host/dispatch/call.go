// Package dispatch takes one call through governance, hooks, validation and admission to an instance, and its
// result back.
package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/bridge"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/listing/toolset"
	"github.com/exthost/exthost/internal/recording/faults"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Call is one call in flight.
type Call struct {
	Exchange *governance.Exchange // as policies see it
	Request  *protocol.Call       // as the caller made it
	Snapshot *snapshot.Snapshot   // the call has entered it, and leaves it at the end
	View     *toolset.View        // what the caller sees; nil: everything. Parts of another call have none
	Target   snapshot.Target      // nil: the host answers
	Instance *unit.Instance       // the last instance that admitted the call; nil before
	Sent     runtime.Request      // as last sent to an instance

	entry  *tools.Entry    // the called tool of the catalog
	parsed toolCall        // the params of a tool call
	params json.RawMessage // Exchange.Request as encoded from parsed
	hooks  hookState
	handed handed
	stages stages
	flight stats.Flight
	span   Span // nil without a tracer
	d      *Dispatcher
	fault  *faults.Fault // drawn and still to be injected, see InjectFaults
}

// isToolCall reports whether the call is a tools/call.
func (c *Call) isToolCall() bool { return c.Request.Method == protocol.MethodToolsCall }

// Caller returns the authenticated caller, "" if anonymous.
func (c *Call) Caller() string {
	if c.Request.Session == nil {
		return ""
	}
	return c.Request.Session.Caller
}

// arguments returns the current arguments: a policy or a hook may have changed them.
func (c *Call) arguments() json.RawMessage {
	if now := c.Exchange.Request; !c.isEncoded(now) {
		return tools.Arguments(rawjson.Get(now, "arguments"))
	}
	return c.parsed.arguments
}

// isEncoded reports whether params are still those that the call encoded.
func (c *Call) isEncoded(params json.RawMessage) bool {
	return len(params) == len(c.params) && len(params) > 0 && &params[0] == &c.params[0]
}

// IsPlain reports whether params are the name and arguments of a tool alone, as the call encoded them. They have no
// _meta and no answers to input requests then, and long arguments need not be searched for those.
func (c *Call) IsPlain(params json.RawMessage) bool {
	return c.parsed.rest == nil && c.isEncoded(params)
}

// route finds the target of r. t holds the params of a tool call, nil for others. After an error, the call has left
// its snapshot.
func (d *Dispatcher) route(r *protocol.Call, t *toolCall, part bool) (_ *Call, err error) {
	c := d.newCall()
	c.Request, c.Snapshot, c.d = r, d.o.Snapshots.Enter(), d
	if t != nil {
		c.parsed = *t
	}
	defer func() {
		if err != nil {
			c.Snapshot.Leave()
		}
	}()
	if !part {
		if c.View, err = c.Snapshot.View(r.Session); err != nil {
			return nil, err
		}
	}
	*c.Exchange = exchangeOf(r)
	if r.Extension != "" {
		if c.Target = c.Snapshot.Target(r.Extension); c.Target == nil || !c.View.Reaches(r.Extension) {
			return nil, UnknownExtension(r.Extension, nil)
		}
	}
	if t != nil {
		return c, c.routeTool()
	}
	return c, c.routeMethod(d.o.Aggregator)
}

// exchangeOf returns the exchange of a request before its target is known.
func exchangeOf(r *protocol.Call) governance.Exchange {
	x := governance.Exchange{
		Method:    r.Method,
		Extension: r.Extension,
		ToChild:   true,
		Notify:    r.Notify,
		Request:   runtime.WithoutIdentity(r.Params),
		Origin:    r.Origin,
	}
	if s := r.Session; s != nil {
		x.Caller, x.Session, x.Instance, x.Node = s.Caller, s.ID, s.Instance, s.Node
	}
	return x
}

// routeMethod checks a request other than tools/call, and removes its target if the host answers it.
func (c *Call) routeMethod(a Aggregator) error {
	r := c.Request
	_, bridged := c.Target.(*bridge.Destination)
	switch {
	case r.Method == protocol.MethodToolsList && !bridged:
		c.Target = nil // the catalog answers
	case c.Target == nil && !a.Aggregates(r.Method):
		return protocol.Errorf(protocol.ToolNotFound, "method %q is not served here", r.Method)
	}
	c.Exchange.Tool = a.ToolOf(r)
	if e, ok := c.Snapshot.Catalog.Lookup(c.Exchange.Tool); ok {
		c.Exchange.Risk, c.Exchange.Mismatch = e.Risk, e.Mismatch()
	}
	if r.Extension == "" {
		return nil
	}
	return c.checkShown(r.Params)
}

// checkShown returns the error for a request to an extension about something that the caller's toolset hides, or that
// policies hold back for hidden text. params have the extension's own names.
func (c *Call) checkShown(params json.RawMessage) error {
	if err := c.View.Check(c.Request.Extension, c.Request.Method, params); err != nil {
		return err
	}
	return c.Snapshot.Policies.HoldsHidden(c.Request.Extension, c.Request.Method, params)
}

// routeTool finds the tool and encodes the params as the extension will get them, so that policies see exactly
// those.
func (c *Call) routeTool() error {
	if d, ok := c.Target.(*bridge.Destination); ok {
		c.Exchange.Tool = d.ToolName(c.parsed.name)
		c.Exchange.Request = c.parsed.params(c.parsed.name)
		return c.checkShown(c.Exchange.Request)
	}
	if !c.lookup(c.View.Tools(c.Snapshot.Catalog), c.Request.Extension, c.parsed.name) {
		return c.unknownTool(c.Request.Extension, c.parsed.name)
	}
	if may, _ := c.entry.ForPages(); c.parsed.ofPage && !may {
		return notForPages(c.entry)
	}
	if c.parsed.by != "" {
		if err := c.Snapshot.Config.Tools.CheckCaller(c.parsed.by, c.entry); err != nil {
			return err
		}
	}
	if c.Target = nil; c.entry.Extension != "" {
		c.Target = c.Snapshot.Target(c.entry.Extension)
	}
	x := c.Exchange
	x.Extension, x.Tool, x.Risk, x.Mismatch = c.entry.Extension, c.entry.Registered(), c.entry.Risk, c.entry.Mismatch()
	var err error
	if c.parsed.arguments, err = c.entry.Sent(c.parsed.arguments); err != nil {
		return err
	}
	c.params = c.parsed.params(c.entry.Tool)
	c.Exchange.Request = c.params
	return c.Snapshot.Policies.HoldsHidden(c.entry.Extension, c.Request.Method, c.params)
}

// lookup finds the called tool in a catalog; extension is "" if name is one of all extensions.
func (c *Call) lookup(catalog *tools.Catalog, extension, name string) (ok bool) {
	if extension == "" {
		c.entry, ok = catalog.Lookup(name)
	} else {
		c.entry, ok = catalog.LookupIn(extension, name)
	}
	if !ok { // the policy that withholds the tool refuses the call later
		c.entry, ok = catalog.Withheld(extension, name)
	}
	if !ok {
		c.entry, ok = c.findTool()
	}
	if !ok && c.parsed.ofPage { // a page may know the name from a list of all extensions
		c.entry, ok = catalog.Lookup(name)
		ok = ok && c.entry.Extension == extension
	}
	return ok
}

// shaped returns the tool whose result the call returns, as the caller's toolset shows it; nil if it shows results as
// they are, or the call returns none.
func (c *Call) shaped() *tools.Entry {
	e := c.entry
	if c.View != nil && e == nil && c.Request.Method == protocol.MethodTasksResult {
		e = c.View.Shaped(c.Exchange.Tool)
	}
	if e == nil || !e.Reshaped() {
		return nil
	}
	return e
}

// UnknownExtension is the error for an unknown id, with the most similar of the known ids.
func UnknownExtension(id string, known []string) error {
	if near := text.Nearest(id, known); near != "" {
		return protocol.Errorf(protocol.ToolNotFound, "there is no extension %q, did you mean %q?", id, near)
	}
	return protocol.Errorf(protocol.ToolNotFound, "there is no extension %q; exthost status shows those there are", id)
}

// unknownTool returns why the extension that may have the tool does not offer it, or an error with the most
// similar name.
func (c *Call) unknownTool(extension, name string) error {
	if native, ok := nativeName(c.View, extension, name); ok {
		if err := starts.NotReady(c.Snapshot.Ordered, extension, native, c.View); err != nil {
			if e, ok := errors.AsType[*protocol.Error](err); ok {
				e.Tool = name
			}
			return err
		}
		if err := c.Snapshot.Absent(extension, native, c.View); err != nil {
			return err
		}
	}
	var known []string
	full := "" // the name of a tool whose own name is name
	for _, e := range c.View.Tools(c.Snapshot.Catalog).Entries() {
		switch {
		// hidden tools are not suggested either
		case !c.Snapshot.Policies.Shows(c.Exchange.Caller, e):
		case extension == "":
			known = append(known, e.Name)
			if e.Tool == name {
				full = e.Name
			}
		case e.Extension == extension:
			known = append(known, e.Tool)
		}
	}
	message := fmt.Sprintf("there is no tool %q", name)
	if near := cmp.Or(full, text.Nearest(name, known)); near != "" {
		message += fmt.Sprintf(", did you mean %q?", near)
	}
	return protocol.Errorf(protocol.ToolNotFound, "%s", message)
}

// nativeName returns the registered name of a tool that view shows under name. If extension is set, name is returned:
// it is the extension's own. ok is false if no tool can have the name.
func nativeName(view *toolset.View, extension, name string) (native string, ok bool) {
	if extension != "" {
		return name, true
	}
	return view.Native(name)
}

// Blame returns err as a *protocol.Error that names the extension and the tool. Its outcome says whether an
// instance may have acted on the call.
func (c *Call) Blame(err error) error {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		e = protocol.Errorf(cmp.Or(protocol.KindOf(err), protocol.ExtensionError), "%w", err)
	}
	named := *e // calls that fail together may share the error
	if named.Extension == "" && c.Target != nil {
		named.Extension = c.Target.Base().ID()
	}
	named.Tool = cmp.Or(named.Tool, c.Exchange.Tool)
	if c.entry != nil && named.Tool == c.entry.Registered() {
		named.Tool = c.entry.Name // as the caller knows it
	}
	named.Outcome = c.outcome(&named)
	return &named
}

// AskCaller sends a request to the caller while the call is in flight. The request passes the policies of the
// call, with caller and extension swapped.
func (c *Call) AskCaller(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	x := c.reversed(method, params)
	var end func(time.Time, status.Outcome)
	if c.span != nil {
		end = c.span.Ask(time.Now(), method)
	}
	err := c.Snapshot.Policies.Pipeline.Govern(ctx, x, func(ctx context.Context, x *governance.Exchange) (err error) {
		defer c.asked(x.Method)()
		x.Response, err = c.Request.Client.Call(ctx, x.Method, x.Request)
		return err
	})
	if end != nil {
		end(time.Now(), stats.OutcomeOf(x.Response, err))
	}
	return x.Response, err
}

// asked records the question to the caller until answered is called.
func (c *Call) asked(method string) (answered func()) {
	q := status.Question{
		Method:    method,
		Extension: c.Exchange.Extension,
		Tool:      c.Exchange.Tool,
		Caller:    c.Exchange.Caller,
		Node:      c.Exchange.Node,
		Session:   c.Exchange.Session,
	}
	if s := c.Request.Session; s != nil {
		q.Client = stats.ClientName(s.ClientInfo)
	}
	if c.flight.Tool == "" { // no instance has it, or it is no call of a tool
		return c.d.o.History.Asked(q)
	}
	closed, resumed := c.d.o.History.Asked(q), c.Target.Base().Calls.Asks(&c.flight)
	return func() { closed(); resumed() }
}

// TellCaller notifies the caller, through the same policies as AskCaller.
func (c *Call) TellCaller(ctx context.Context, method string, params json.RawMessage) error {
	x := c.reversed(method, params)
	x.Notify = true
	return c.Snapshot.Policies.Pipeline.Govern(ctx, x, func(ctx context.Context, x *governance.Exchange) error {
		return c.Request.Client.Notify(ctx, x.Method, x.Request)
	})
}

// reversed returns the exchange of the call with caller and extension swapped, for a message of the instance.
func (c *Call) reversed(method string, params json.RawMessage) *governance.Exchange {
	x := *c.Exchange
	x.Method, x.Request, x.Response, x.ToChild, x.Notify, x.Client = method, params, nil, false, false, nil
	return &x
}
