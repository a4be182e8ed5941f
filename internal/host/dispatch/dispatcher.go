package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/starts"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Deliver carries a call through the remaining stages with these params, and returns the result.
type Deliver func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error)

// Stage wraps a Deliver.
type Stage func(next Deliver) Deliver

// Aggregator serves clients of all extensions as one server.
type Aggregator interface {
	// Aggregates reports whether Aggregate serves a method.
	Aggregates(method string) bool
	// Aggregate answers a call of all extensions.
	Aggregate(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
	// Resolve returns c with the extension that owns the resource, prompt or task that c is about; c itself if it is
	// about none.
	Resolve(ctx context.Context, c *protocol.Call) (*protocol.Call, error)
	// ToolOf returns the tool whose call began the task that c is about, "" if none: a policy about a tool covers
	// the tasks of its calls.
	ToolOf(c *protocol.Call) string
	// PageServer returns the extension with a page of an MCP App, as s sees it.
	PageServer(ctx context.Context, s *protocol.Session, uri string) (extension string, err error)
}

// Options of a [Dispatcher].
type Options struct {
	Snapshots  *snapshot.Store
	Aggregator Aggregator
	History    *stats.History
	Feed       *stats.Feed
	Waits      *starts.Waits
	Tracer     Tracer // nil: no spans
	// Approves returns the risks of the calls that a named client may approve. Nil: none.
	Approves func(client string) []protocol.Risk
	Log      *slog.Logger
}

// Dispatcher carries calls. It is safe for concurrent use.
type Dispatcher struct {
	o       Options
	deliver Deliver
	unused  sync.Pool // of *Call, the largest allocation of a call
	shown   shownPages
}

// New returns a dispatcher that takes calls through stages, in this order.
func New(o Options, stages ...Stage) *Dispatcher {
	d := &Dispatcher{o: o, deliver: send}
	for n := range stages {
		d.deliver = stages[len(stages)-1-n](d.deliver)
	}
	return d
}

// Do carries one call. The result is the extension's bytes. The error is a *protocol.Error.
func (d *Dispatcher) Do(ctx context.Context, r *protocol.Call) (json.RawMessage, error) {
	if len(r.Params) > 0 {
		if err := rawjson.Check(r.Params); err != nil { // other bytes could end the frame
			return nil, protocol.Errorf(protocol.InvalidJSON, "the params of %s are not JSON: %w", r.Method, err)
		}
	}
	if r.Notify && !strings.HasPrefix(r.Method, "notifications/") {
		return nil, protocol.Errorf(protocol.ToolNotFound, "%q is a request, and was sent as a notification", r.Method)
	}
	// the request id in it is the caller's, and could be that of any other call at the extension
	if r.Method == protocol.MethodCancelled {
		return nil, protocol.Errorf(protocol.ToolNotFound,
			"%s is not passed on: a call is cancelled by the end of its context", r.Method)
	}
	if r.Method != protocol.MethodToolsCall {
		r, err := d.o.Aggregator.Resolve(ctx, r)
		if err != nil {
			return nil, err
		}
		result, err := d.do(ctx, r, nil, true)
		if err == nil {
			d.shown.read(r)
		}
		return result, err
	}
	r, t, err := d.readToolCall(ctx, r)
	if err != nil {
		return nil, err
	}
	return d.do(ctx, r, t, true)
}

// readToolCall reads the params of a tools/call. It returns the call that is meant: the one inside a call of ext_call,
// and that of a page bound to the server of the page.
func (d *Dispatcher) readToolCall(ctx context.Context, r *protocol.Call) (*protocol.Call, *toolCall, error) {
	t, err := readToolCall(r.Params)
	if err == nil {
		r, t, err = d.unwrap(r, t)
	}
	if err == nil {
		r, err = d.bindToPage(ctx, r, t)
	}
	return r, t, err
}

// DoPart makes a call that is part of answering another call, such as the list of one extension. The part passes
// every stage but is not counted, because the whole call is counted. The session's toolset does not restrict it: the
// caller of DoPart filters the result.
func (d *Dispatcher) DoPart(ctx context.Context, r *protocol.Call) (json.RawMessage, error) {
	return d.do(ctx, r, nil, false)
}

// anonymous is the call of a Go program; tool and arguments are passed beside it.
var anonymous = protocol.Call{Method: protocol.MethodToolsCall}

// CallTool calls a tool for a Go program, by the name that the session of r knows, or by its registered name. args is
// any value that encodes to a JSON object; a json.RawMessage is sent as it is, nil means {}. r is a tools/call whose
// params have neither tool nor arguments; nil is that of an anonymous caller.
func (d *Dispatcher) CallTool(ctx context.Context, r *protocol.Call, tool string, args any) (json.RawMessage, error) {
	arguments, err := encodeArguments(args)
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = &anonymous
	}
	t := &toolCall{name: tool, arguments: arguments, rest: r.Params}
	if err := t.checkName(); err != nil {
		return nil, err
	}
	t.normalize()
	r, t, err = d.unwrap(r, t)
	if err != nil {
		return nil, err
	}
	return d.do(ctx, r, t, true)
}

func (d *Dispatcher) do(ctx context.Context, r *protocol.Call, t *toolCall, counted bool) (json.RawMessage, error) {
	c, err := d.enter(ctx, r, t, !counted)
	if err != nil {
		d.o.History.UnknownTarget(err)
		return nil, err
	}
	defer c.Snapshot.Leave()
	if c.stages.began.IsZero() {
		c.stages.began = time.Now()
	}
	if d.o.Tracer != nil {
		var parent protocol.TraceContext // a part takes its parent from ctx
		if counted {
			parent = traceOf(r.Params)
		}
		ctx, c.span = d.o.Tracer.Begin(ctx, parent, c.stages.began)
	}
	result, err := d.carry(ctx, c)
	d.count(c, counted, err)
	if c.handed.reached {
		d.keepFailure(c, cmp.Or(err, c.refusedSecret(result)))
	}
	if err != nil {
		return nil, c.Blame(err)
	}
	if c.entry != nil && c.entry.Page() != "" {
		d.shown.called(c)
	}
	if shaped := c.shaped(); shaped != nil {
		result = shaped.Shown(result)
	}
	d.recycle(c)
	return result, nil
}

// carry takes the call through the stages. A panic ends this call only: others are in flight.
func (d *Dispatcher) carry(ctx context.Context, c *Call) (result json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			d.o.Log.Error("a call broke off inside the host", "method", c.Request.Method, "extension",
				c.Exchange.Extension, "tool", c.Exchange.Tool, "panic", v, "stack", string(debug.Stack()))
			result, err = nil, errPanicked
			c.handed.failed = false // a panic is no answer of the extension
		}
	}()
	return d.deliver(ctx, c, c.Exchange.Request)
}

// enter routes r. Lists wait for starting extensions whose items are unknown; calls of unknown tools wait for
// those that may have the tool.
func (d *Dispatcher) enter(ctx context.Context, r *protocol.Call, t *toolCall, part bool) (*Call, error) {
	if isList(d.o.Aggregator, r) {
		began := time.Now()
		d.o.Waits.AwaitListed(ctx, r)
		return d.routeAfter(began, r, t, part)
	}
	if t.isFind(r) {
		d.o.Waits.AwaitListed(ctx,
			&protocol.Call{Session: r.Session, Method: protocol.MethodToolsList, Params: r.Params, Client: r.Client})
	}
	c, err := d.route(r, t, part)
	if err == nil || t == nil {
		return c, err
	}
	began := time.Now()
	now := d.o.Snapshots.Load()
	view, wrong := now.View(r.Session)
	if name, ok := nativeName(view, r.Extension, t.name); ok && wrong == nil {
		d.o.Waits.AwaitOwner(ctx, r, name, view)
		d.o.Waits.TryOwner(ctx, now.Ordered, r.Extension, name, view)
	}
	c, err = d.routeAfter(began, r, t, part)
	if protocol.KindOf(err) != protocol.ToolNotFound || r.Extension != "" {
		return c, err
	}
	bound, refused := d.bindToShown(r, t)
	if bound == nil {
		return nil, cmp.Or(refused, err)
	}
	return d.routeAfter(began, bound, t, part)
}

// routeAfter routes a request that has waited for starts since began; the wait counts as part of the call.
func (d *Dispatcher) routeAfter(began time.Time, r *protocol.Call, t *toolCall, part bool) (*Call, error) {
	c, err := d.route(r, t, part)
	if err == nil {
		if c.stages.began = began; time.Since(began) >= noticed {
			c.Passed(status.StageStart, began)
		}
	}
	return c, err
}

// noticed is the shortest wait for starts that is recorded as a stage.
const noticed = time.Millisecond

// AwaitListed waits for starting extensions whose items belong in the list that r requests.
func (d *Dispatcher) AwaitListed(ctx context.Context, r *protocol.Call) {
	d.o.Waits.AwaitListed(ctx, r)
}

// isList reports whether r requests a list of all or one extension.
func isList(a Aggregator, r *protocol.Call) bool {
	return r.Method == protocol.MethodToolsList ||
		r.Extension == "" && a.Aggregates(r.Method) && r.Method != protocol.MethodSetLevel
}

// Enter routes r without sending it. The caller of Enter must leave the snapshot of the result.
func (d *Dispatcher) Enter(ctx context.Context, r *protocol.Call) (*Call, error) {
	return d.enter(ctx, r, nil, false)
}

// Test takes the request flow of r through the policies and sends nothing. It returns the decisions and the error
// that the call would have had.
func (d *Dispatcher) Test(ctx context.Context, r *protocol.Call) (governance.Trace, error) {
	var t *toolCall
	if r.Method == protocol.MethodToolsCall {
		var err error
		if r, t, err = d.readToolCall(ctx, r); err != nil {
			return governance.Trace{}, err
		}
	}
	c, err := d.enter(ctx, r, t, false)
	if err != nil {
		return governance.Trace{}, err
	}
	defer c.Snapshot.Leave()
	trace, err := c.Snapshot.Policies.Pipeline.Test(ctx, c.Exchange)
	if err != nil {
		err = c.Blame(err)
	}
	return trace, err
}

// count reports an ended call to the history, to the tracer and to listeners. Uncounted parts get a span only.
func (d *Dispatcher) count(c *Call, counted bool, err error) {
	if !counted && c.span == nil {
		return
	}
	x, began := c.Exchange, c.stages.began
	took := time.Since(began) // reads the clock only once
	e := stats.Ended{
		At:       began.Add(took),
		Entry:    c.entry != nil,
		Err:      err,
		Served:   c.handed.took,
		Request:  x.Request,
		Response: x.Response,
		CallEvent: status.CallEvent{
			Extension: x.Extension,
			Tool:      x.Tool,
			Method:    x.Method,
			Caller:    x.Caller,
			Session:   x.Session,
			Outcome:   stats.OutcomeOf(x.Response, err),
			Decision:  x.ID,
			Replayed:  x.Replayed,
			Took:      protocol.Duration(took),
			Stages:    c.stages.kept[:c.stages.n],
		},
	}
	if c.Instance != nil && c.Instance.IsRemoteNode() {
		e.Node = c.Instance.Key
	}
	if s := c.Request.Session; s != nil {
		e.ClientInfo, e.Protocol, e.Front = s.ClientInfo, s.Version, s.Front
	}
	if kind := protocol.KindOf(err); kind == protocol.Rejected || kind == protocol.GovernanceUnavailable {
		e.Policy, e.Code = x.Verdict.Policy, x.Verdict.Code
	}
	if c.span == nil {
		e.Trace = traceOf(c.Request.Params).ID()
	} else {
		e.Trace = c.span.Context().ID()
		event := e.CallEvent
		c.span.End(e.At, &event)
	}
	if !counted {
		return
	}
	if c.Target != nil {
		c.Target.Base().Calls.Requested(e.Outcome, c.handed.reached, c.handed.took)
		d.keepDenial(c, &e)
	}
	e.ID = d.o.History.End(&e)
	if d.o.Feed.Readers() > 0 {
		event := e.CallEvent
		event.Client, event.Message = stats.ClientName(e.ClientInfo), d.o.History.Message(err)
		event.Stages = slices.Clone(e.Stages)
		d.o.Feed.Call(&event)
	}
}

// keepDenial records for the status that governance refused a call, with secrets masked.
func (d *Dispatcher) keepDenial(c *Call, e *stats.Ended) {
	if calls := c.Target.Base().Calls; e.Outcome.IsDenial() && calls.Denied(e.At) {
		calls.KeepDenial(&status.Denial{
			Time:     e.At,
			Tool:     e.Tool,
			Policy:   e.Policy,
			Next:     protocol.NextOf(e.Err),
			Decision: e.Decision,
			Reason:   d.o.History.Line(e.Err),
		})
	}
}

// refusedSecret returns an error if the tool reports that a server does not accept the secret that the extension is
// given: MCP servers report that in a result.
func (c *Call) refusedSecret(result json.RawMessage) error {
	r, stored := protocol.ToolResult(result), c.Target.Base().Spec.Stored
	if len(stored) == 0 || !r.IsError() {
		return nil
	}
	if said := r.Text(); status.AfterRefusal(stored, said) != "" {
		return protocol.Errorf(protocol.ExtensionError, "%s", said)
	}
	return nil
}

// keepFailure records for the status how a call failed at an instance, with secrets masked, and logs some
// failures. It skips the end of a process, which is logged by its unit, and denials of governance, which are no
// failures of the extension.
func (d *Dispatcher) keepFailure(c *Call, err error) {
	u, kind := c.Target.Base(), protocol.Kind(stats.OutcomeOf(nil, err))
	switch {
	case err == nil:
		u.Calls.Succeeded()
		return
	case kind == protocol.Canceled || kind == protocol.InvalidArguments || status.Outcome(kind).IsDenial():
		return
	}
	f := &status.Failure{
		Time:   time.Now(),
		Tool:   c.Exchange.Tool,
		Kind:   kind,
		Reason: d.o.History.Line(err),
		Next:   protocol.NextOf(err),
	}
	u.Calls.Failed(f)
	if protocol.ProcessEnded(err) {
		return
	}
	if unlogged, ok := u.Calls.LogsFailure(f.Time); ok {
		var more slog.Attr // an empty attribute is left out
		if unlogged > 0 {
			more = slog.Int64("not_logged_before", unlogged)
		}
		u.Log.LogAttrs(context.Background(), slog.LevelWarn, failureText(kind), slog.String("tool", f.Tool),
			slog.String("kind", string(kind)), slog.String("reason", f.Reason),
			slog.String("after", c.handed.took.Round(time.Millisecond).String()), more,
			slog.String("next", afterFailure(u, kind)))
	}
}

func failureText(kind protocol.Kind) string {
	if kind == protocol.CallTimeout {
		return "a call timed out"
	}
	return "a call failed"
}

// afterFailure returns what to do about a failed call.
func afterFailure(u *unit.Unit, kind protocol.Kind) string {
	const slow = "raise call_timeout under [runtime] if it is only slow"
	switch {
	// the process has ended with the call: there is nothing to restart
	case kind == protocol.CallTimeout && u.Candidate.Manifest.Transport.Kind == manifest.KindExec:
		return slow
	case kind == protocol.CallTimeout:
		return "exthost restart " + u.ID() + " if it hangs; " + slow
	}
	return "exthost status " + u.ID()
}

func (d *Dispatcher) newCall() *Call {
	c, ok := d.unused.Get().(*Call)
	if !ok {
		c = new(Call)
	}
	if c.Exchange == nil {
		c.Exchange = new(governance.Exchange)
	}
	return c
}

// recycle reuses the memory of a call that succeeded, unless hooks or a peer of the caller may still hold a reference
// to it. Policies may hold one to its exchange.
func (d *Dispatcher) recycle(c *Call) {
	if c.hooks.id != "" || c.Request.Client != nil {
		return
	}
	x := c.Exchange
	if x.ID == "" {
		*x = governance.Exchange{}
	} else {
		x = nil
	}
	*c = Call{Exchange: x}
	d.unused.Put(c)
}
