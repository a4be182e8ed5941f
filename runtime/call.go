package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcpclient"
	"github.com/exthost/exthost/protocol"
)

// noLimit is a timeout that no call reaches.
const noLimit = time.Duration(math.MaxInt64 / 4)

// available returns nil if the child accepts calls, else the error for a call.
func (c *child) available() *protocol.Error {
	switch {
	case c == nil || c.handshake.Load() == nil:
		return protocol.Errorf(protocol.NotReady, "it has not finished its handshake")
	case c.stopping.Load():
		return protocol.Errorf(protocol.ShuttingDown, "it is stopping")
	}
	return nil
}

// call sends r and returns the answer translated to MCP.
func (c *child) call(ctx context.Context, r *Request) (json.RawMessage, *protocol.Error) {
	if d, ok := c.dialect.(*mcp); ok && d.modern &&
		(r.Method == protocol.MethodResourcesSubscribe || r.Method == protocol.MethodResourcesUnsubscribe) {
		return c.subscription(ctx, d, r)
	}
	o := jsonrpc.CallOptions{
		Timeout:    c.spec.Options.CallTimeout,
		MaxTimeout: c.spec.Options.MaxCallTimeout,
		Owner:      r.Owner,
		Convert:    c.dialect.converter(r.Method),
	}
	o.MaxTimeout = cmp.Or(o.MaxTimeout, noLimit)
	if _, ok := c.dialect.(*mcp); ok && r.Method == protocol.MethodTasksResult && o.Timeout > 0 {
		o.Timeout = o.MaxTimeout // the answer comes only once the task has ended
	}
	var token json.RawMessage
	own := callerToken(r)
	if own != nil {
		token = c.tokens.next()
		o.Token = string(token)
	}
	if own != nil || r.Client != nil {
		o.OnMessage = (&relay{client: r.Client, callerToken: own, log: c.spec.Logger}).message
	}
	method, params, err := c.dialect.outgoing(r, token)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	result, err := c.exchange(ctx, method, params, &o)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	c.spec.hearResult(r, result)
	return result, nil
}

// exchange sends a request, by callOne to a child that takes one call at a time. Such a child is ready for the next
// call before the result is converted: what it writes then is about no call.
func (c *child) exchange(ctx context.Context, method string, params json.RawMessage, o *jsonrpc.CallOptions,
) (json.RawMessage, error) {
	if !c.traits.oneCall {
		return c.conn.Call(ctx, method, params, o)
	}
	result, err := c.callOne(ctx, method, params)
	if err == nil && o.Convert != nil {
		result, _ = o.Convert(result)
	}
	return result, err
}

// subscription emulates the subscribe methods, which modern servers do not have.
func (c *child) subscription(ctx context.Context, d *mcp, r *Request) (json.RawMessage, *protocol.Error) {
	if r.Method == protocol.MethodResourcesUnsubscribe {
		c.watches.drop(textOf(r.Params, "uri"))
		return emptyObject, nil
	}
	raw, err := c.subscribeResource(ctx, d, r.Params)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	return raw, nil
}

// fault translates the error of a call or notification for its caller.
func (c *child) fault(ctx context.Context, err error) *protocol.Error {
	if fault := remoteFault(err); fault != nil {
		return fault
	}
	var answer *jsonrpc.Error
	var invalid *jsonrpc.InvalidResponse
	var known *protocol.Error
	switch {
	case errors.As(err, &answer):
		c.spec.Sandbox.Hear(answer.Message)
		fault := protocol.Errorf(protocol.ExtensionError, "%s", cmp.Or(answer.Message,
			"it answered with an error that has no message"))
		fault.Code, fault.Data = int(answer.Code), answer.Data
		return fault
	case errors.As(err, &invalid) && errors.Is(err, mcpclient.ErrSessionGone): // the server did not process it
		return c.waitExit(ctx)
	case errors.As(err, &invalid) && errors.As(invalid.Err, &known): // the transport knows the outcome
		return known
	}
	fault := c.unanswered(ctx, err)
	if jsonrpc.Written(err) || errors.As(err, new(maybeExecuted)) {
		fault.Outcome = "unknown"
	}
	givenUp := errors.Is(err, jsonrpc.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
	if givenUp && jsonrpc.Written(err) && c.traits.cancels {
		c.countUnanswered() // counted at once: it may take long to tell an HTTP server that the call has ended
	}
	return fault
}

// unanswered translates the error of a call that got no valid answer. It does not set Outcome.
func (c *child) unanswered(ctx context.Context, err error) *protocol.Error {
	var invalid *jsonrpc.InvalidResponse
	var known *protocol.Error
	switch {
	case errors.As(err, &invalid):
		kind := protocol.InvalidResponse
		if notJSON(invalid.Err) {
			kind = protocol.InvalidJSON
		}
		fault := protocol.Errorf(kind, "its answer is not a valid response: %v", invalid.Err)
		fault.Evidence = &protocol.Evidence{Line: cutLine(invalid.Line)}
		if c.strays.limit.Allow() {
			c.spec.Logger.Warn("the extension answered with what is no valid response", "reason", invalid.Err,
				"line", display.Escape(fault.Evidence.Line))
		}
		return fault
	case errors.As(err, &known):
		fault := *known // copied: several calls may get the same error
		return &fault
	case errors.Is(err, jsonrpc.ErrTimeout):
		c.pingAfterTimeout()
		return c.timedOut()
	case errors.Is(err, context.DeadlineExceeded):
		return protocol.Errorf(protocol.CallTimeout, "it did not answer before the caller's deadline: %w", err)
	case errors.Is(err, context.Canceled):
		return protocol.Errorf(protocol.Canceled, "the call was canceled: %w", err)
	}
	return c.waitExit(ctx)
}

// waitExit waits for the end of the run and returns the reason. The end comes soon, as the connection has failed. The
// ctx of a call made by a handler of the connection has already ended: such a call must not wait, as the run waits for
// the handler.
func (c *child) waitExit(ctx context.Context) *protocol.Error {
	select {
	case <-c.done:
		return c.copyError()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return protocol.Errorf(protocol.CallTimeout, "the caller's deadline passed while the extension ended: %w",
				ctx.Err())
		}
		return protocol.Errorf(protocol.Canceled, "the call was canceled while the extension ended: %w", ctx.Err())
	}
}

// signal puts a token into c, a channel of capacity one, unless c already holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// handle answers requests of the child that belong to no call.
func (c *child) handle(ctx context.Context, m *jsonrpc.Message) (raw json.RawMessage, err error) {
	defer endBroken(c.spec.Logger, m, &err)
	switch {
	case m.Method == protocol.MethodPing:
		return emptyObject, nil
	case c.answersRoots(m):
		return c.roots, nil
	case c.spec.Incoming == nil:
		return nil, unknownMethod(m.Method)
	}
	raw, err = c.spec.Incoming(ctx, m.Method, m.Params, false)
	if err != nil && m.Method == protocol.MethodRootsList && c.startLog != nil {
		reason := protocol.Reason(err)
		c.startLog.refusal.Store(&reason)
	}
	return raw, wireError(err)
}

// notified handles notifications of the child that belong to no call.
func (c *child) notified(ctx context.Context, m *jsonrpc.Message) {
	defer endBroken(c.spec.Logger, m, new(error))
	switch {
	case m.Method == protocol.MethodToolsListChanged:
		signal(c.toolsChanged)
	case m.Method == protocol.MethodSubscriptionAcknowledged:
		c.watches.acknowledge(m.Params)
	case c.spec.Incoming != nil:
		_, _ = c.spec.Incoming(ctx, m.Method, withoutSubscription(m.Params), true)
	}
}

// abandoned notifies the child that a call was canceled. A child with MaxInFlight abandoned calls has no capacity left
// and is ended. An MCP server is pinged first, as it need not answer canceled calls.
func (c *child) abandoned(ctx context.Context, id uint64, method string, cause error) {
	if !c.traits.cancels {
		return
	}
	if method != protocol.MethodInitialize { // MCP forbids cancelling initialize
		params := mustJSON(map[string]any{"requestId": id, "reason": cause.Error()})
		_ = c.conn.Notify(ctx, protocol.MethodCancelled, params) // best effort
	}
	if c.handshake.Load() == nil { // an unanswered handshake ends the run; until then the ping method is unknown
		return
	}
	switch ping, _ := c.dialect.ping(); {
	case method == ping || !c.owesAll() || c.stopping.Load():
	case c.traits.mayIgnoreCanceled:
		c.suspect(c.patience()/maxMisses, c.spec.Options.MaxInFlight)
	default:
		c.end(protocol.Errorf(protocol.Overloaded,
			"it owed %d answers to abandoned calls, and was replaced", c.conn.Stats().Abandoned))
	}
}

// owesAll reports whether the child owes answers to MaxInFlight abandoned calls, so that it can get no other call.
func (c *child) owesAll() bool {
	most := c.spec.Options.MaxInFlight
	return most > 0 && c.conn.Stats().Abandoned >= most
}

func unknownMethod(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + cutLine([]byte(method))}
}

// errBroken is the answer to a request of the child that made the host panic.
var errBroken = &jsonrpc.Error{
	Code:    jsonrpc.CodeInternal,
	Message: "the request broke off inside the host, which is at fault; its log says where",
}

// endBroken recovers from a panic while a message of the child is handled, so that only that message fails.
func endBroken(log *slog.Logger, m *jsonrpc.Message, err *error) {
	if v := recover(); v != nil {
		log.Error("a message of the extension broke off inside the host", "method", cutLine([]byte(m.Method)),
			"panic", v, "stack", string(debug.Stack()))
		*err = errBroken
	}
}

// wireError converts a *protocol.Error to a JSON-RPC error, and returns other errors unchanged.
func wireError(err error) error {
	var fault *protocol.Error
	if !errors.As(err, &fault) {
		return err
	}
	w := fault.Wire()
	return &jsonrpc.Error{Code: int64(w.Code), Message: w.Message, Data: w.Data}
}

// faultOf returns err itself if it is a *protocol.Error, else an error of the given kind that wraps err.
func faultOf(err error, kind protocol.Kind) *protocol.Error {
	if fault, ok := errors.AsType[*protocol.Error](err); ok {
		return fault
	}
	return protocol.Errorf(kind, "%w", err)
}
