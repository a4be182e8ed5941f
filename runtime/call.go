package runtime

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// noLimit is a time limit that no call reaches.
const noLimit = time.Duration(math.MaxInt64 / 4)

// available says why the child takes no call, nil when it does.
func (c *child) available() *protocol.Error {
	switch {
	case c == nil || c.handshake.Load() == nil:
		return protocol.Errorf(protocol.NotReady, "it has not finished its handshake")
	case c.stopping.Load():
		return protocol.Errorf(protocol.ShuttingDown, "it is stopping")
	}
	return nil
}

// call sends r and returns the answer in MCP's terms.
func (c *child) call(ctx context.Context, r *Request) (json.RawMessage, *protocol.Error) {
	if d, ok := c.dialect.(*mcp); ok && d.modern && (r.Method == methodSubscribe || r.Method == methodUnsubscribe) {
		return c.subscription(ctx, d, r)
	}
	o := jsonrpc.CallOptions{Timeout: c.spec.Options.CallTimeout, MaxTimeout: c.spec.Options.MaxCallTimeout, Owner: r.Owner}
	if o.MaxTimeout == 0 {
		o.MaxTimeout = noLimit
	}
	if _, ok := c.dialect.(*mcp); ok && r.Method == protocol.MethodTasksResult && o.Timeout > 0 {
		o.Timeout = o.MaxTimeout // the answer comes when the task is over, and not before
	}
	var token json.RawMessage
	theirs := callerToken(r.Params)
	if theirs != nil {
		token = c.tokens.mint()
		o.Token = string(token)
	}
	if theirs != nil || r.Client != nil {
		o.OnMessage = (&relay{client: r.Client, theirs: theirs}).message
	}
	method, params, err := c.dialect.outgoing(r, token)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	var raw json.RawMessage
	if c.traits.single {
		raw, err = c.single(ctx, method, params)
	} else {
		raw, err = c.conn.Call(ctx, method, params, &o)
	}
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	return c.dialect.result(r.Method, raw), nil
}

// subscription serves what servers of the newer era have no method for.
func (c *child) subscription(ctx context.Context, d *mcp, r *Request) (json.RawMessage, *protocol.Error) {
	if r.Method == methodUnsubscribe {
		c.watches.drop(textOf(r.Params, "uri"))
		return emptyObject, nil
	}
	raw, err := c.watchResource(ctx, d, r.Params)
	if err != nil {
		return nil, c.fault(ctx, err)
	}
	return raw, nil
}

// fault says what err, of a call or a notification, means to its caller.
func (c *child) fault(ctx context.Context, err error) *protocol.Error {
	var fault *protocol.Error
	var answer *jsonrpc.Error
	var invalid *jsonrpc.InvalidResponse
	if fault := remoteFault(err); fault != nil {
		return fault
	}
	switch {
	case errors.As(err, &answer):
		fault = protocol.Errorf(protocol.ExtensionError, "%s", answer.Message)
		fault.Code, fault.Data = int(answer.Code), answer.Data
		return fault
	case errors.As(err, &invalid) && errors.Is(err, mcphttp.ErrSessionGone): // and did not act on it
		return c.fate(ctx)
	case errors.As(err, &invalid):
		fault = protocol.Errorf(protocol.InvalidResponse, "its answer is not a valid response: %v", invalid.Err)
		fault.Evidence = &protocol.Evidence{Line: cutLine(invalid.Line)}
	case errors.As(err, &fault):
	case errors.Is(err, jsonrpc.ErrTimeout):
		signal(c.hung)
		fault = protocol.Errorf(protocol.CallTimeout, "it did not answer in time: call_timeout is %v, with progress max_call_timeout is %v; the call may have been carried out",
			c.spec.Options.CallTimeout, c.spec.Options.MaxCallTimeout)
	case errors.Is(err, context.DeadlineExceeded):
		fault = protocol.Errorf(protocol.CallTimeout, "it did not answer before the caller's deadline: %w", err)
	case errors.Is(err, context.Canceled):
		fault = protocol.Errorf(protocol.Canceled, "the call was canceled: %w", err)
	default:
		fault = c.fate(ctx)
	}
	if jsonrpc.Written(err) || errors.As(err, new(unanswered)) {
		fault.Outcome = "unknown"
	}
	return fault
}

// fate waits until the run is over, which it soon is when its connection broke,
// and returns why. A call made by one of the connection's own handlers must not
// wait, because the run waits for the handler: its ctx has ended by then.
func (c *child) fate(ctx context.Context) *protocol.Error {
	select {
	case <-c.ended:
		return c.epitaph()
	case <-ctx.Done():
		return protocol.Errorf(protocol.Canceled, "the call was canceled while the extension ended: %w", ctx.Err())
	}
}

// signal leaves a token in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// callerToken returns the progress token that the caller put into params.
func callerToken(params json.RawMessage) json.RawMessage {
	if !mayHave(params, "progressToken") {
		return nil
	}
	return rawjson.Get(rawjson.Get(params, "_meta"), "progressToken")
}

// tokenMint makes progress tokens that nobody else makes: callers' tokens need
// only be unique for their own session, and a child has its own as well.
type tokenMint struct {
	prefix string
	last   atomic.Uint64
}

func (m *tokenMint) init() {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	m.prefix = `"x` + hex.EncodeToString(b[:]) + "-"
}

// mint returns a new token as JSON.
func (m *tokenMint) mint() json.RawMessage {
	b := append(make([]byte, 0, 32), m.prefix...)
	return append(strconv.AppendUint(b, m.last.Add(1), 10), '"')
}

// tokenOf returns the progress token by which a message of the child names a call.
func tokenOf(m *jsonrpc.Message) string {
	if !bytes.Contains(m.Params, []byte("progressToken")) {
		return ""
	}
	if m.Method == protocol.MethodProgress {
		return string(rawjson.Get(m.Params, "progressToken"))
	}
	return string(rawjson.Get(rawjson.Get(m.Params, "_meta"), "progressToken"))
}

// loose reports whether a message that names no call is about one all the same.
// What a server says of itself is not.
func loose(m *jsonrpc.Message) bool {
	if m.ID != nil {
		return m.Method != protocol.MethodPing
	}
	return m.Method == protocol.MethodMessage
}

// relay takes what the child says about a call in flight to its caller.
type relay struct {
	client protocol.Peer   // nil hears nothing and refuses
	theirs json.RawMessage // the caller's own progress token; nil when it has none
}

func (r *relay) message(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
	params := r.restore(m)
	switch {
	case m.ID == nil && r.client == nil:
		return nil, nil
	case m.ID == nil:
		return nil, r.client.Notify(ctx, m.Method, params)
	case r.client == nil:
		return nil, unknownMethod(m.Method)
	}
	raw, err := r.client.Call(ctx, m.Method, params)
	return raw, wireError(err)
}

// restore puts the caller's token where the child put ours.
func (r *relay) restore(m *jsonrpc.Message) json.RawMessage {
	if r.theirs == nil || tokenOf(m) == "" {
		return m.Params
	}
	if m.Method == protocol.MethodProgress {
		return rawjson.Set(m.Params, "progressToken", r.theirs)
	}
	return withToken(m.Params, r.theirs)
}

// handle answers what the child asks outside any call.
func (c *child) handle(ctx context.Context, m *jsonrpc.Message) (json.RawMessage, error) {
	switch {
	case m.Method == protocol.MethodPing:
		return emptyObject, nil
	case c.spec.Incoming == nil:
		return nil, unknownMethod(m.Method)
	}
	raw, err := c.spec.Incoming(ctx, m.Method, m.Params, false)
	return raw, wireError(err)
}

// notified takes what the child tells outside any call.
func (c *child) notified(ctx context.Context, m *jsonrpc.Message) {
	switch {
	case m.Method == protocol.MethodToolsListChanged:
		signal(c.changed)
	case m.Method == methodAcknowledged:
		c.watches.grant(m.Params)
	case c.spec.Incoming != nil:
		_, _ = c.spec.Incoming(ctx, m.Method, unmarked(m.Params), true)
	}
}

// abandoned tells the child that nobody waits for an answer any more. A child
// that owes as many such answers as it may have calls is of no more use, unless
// its silence is what the protocol asks for and it still answers a ping.
func (c *child) abandoned(ctx context.Context, id uint64, method string, cause error) {
	if !c.traits.cancels {
		return
	}
	if method != protocol.MethodInitialize { // which MCP forbids to cancel
		params := mustJSON(map[string]any{"requestId": id, "reason": cause.Error()})
		_ = c.conn.Notify(ctx, protocol.MethodCancelled, params) // a courtesy
	}
	n := c.conn.Stats().Abandoned
	if c.spec.Options.MaxInFlight <= 0 || n < c.spec.Options.MaxInFlight {
		return
	}
	if c.traits.mute && !c.silent(ctx, cmp.Or(c.spec.pingTimeout, pingTimeout)) {
		c.conn.ForgetAbandoned()
		return
	}
	c.end(protocol.Errorf(protocol.Overloaded, "it owed %d answers that nobody waits for any more, and was replaced", n))
}

func unknownMethod(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + cutLine([]byte(method))}
}

// wireError makes err fit for the wire, where only its code and data survive.
func wireError(err error) error {
	var fault *protocol.Error
	if !errors.As(err, &fault) {
		return err
	}
	w := fault.Wire()
	return &jsonrpc.Error{Code: int64(w.Code), Message: w.Message, Data: w.Data}
}

// faultOf returns err as a *protocol.Error, of the given kind unless it is one.
func faultOf(err error, kind protocol.Kind) *protocol.Error {
	var fault *protocol.Error
	if errors.As(err, &fault) {
		return fault
	}
	return protocol.Errorf(kind, "%w", err)
}
