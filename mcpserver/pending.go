package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// In modern MCP, a server sends no requests. To ask something, it answers the client's request with resultType
// input_required and its questions. The client repeats its request with the answers and the requestState (MCP
// 2026-07-28, basic/patterns/mrtr). A legacy extension asks during the call and waits, so its call stays pending
// between the client's requests.
//
// Few calls ask anything, so a call runs in the goroutine of the client's request. The first question answers that
// request early, and the goroutine goes on. Where the transport cannot answer early, each call gets its own goroutine.

// statePrefix is the prefix of the requestState of a pending call.
const statePrefix = "exthost-"

// inputTimeout is how long a client may take to return with the answers, unless the questions wait longer.
const inputTimeout = 5 * time.Minute

// pendingRequest is a call in the backend that may need input from its client.
type pendingRequest struct {
	server  *Server
	session *protocol.Session
	method  string
	params  json.RawMessage         // nil once the call has asked, see about
	cancel  context.CancelCauseFunc // ends the call

	mu    sync.Mutex
	write writer // reaches the client; nil between its requests
	// answers the client's request before the call has ended; nil between its requests
	early func(result json.RawMessage) error
	ended bool

	// The fields below are set once the call has asked a question or runs in its own goroutine.
	state   string                   // the requestState, unguessable
	about   map[string]rawjson.Sum   // of the members of params that say what is called, see isOf
	inputs  map[string]*inputRequest // questions without an answer, by key
	lastKey uint64
	expiry  *time.Timer   // cancels the call; runs between the client's requests
	unhook  func() bool   // keeps Server.Close from cancelling the call
	done    chan struct{} // closed once result and err are set
	result  json.RawMessage
	err     error
}

// inputRequest is a question of the extension that waits for its answer.
type inputRequest struct {
	method string
	params json.RawMessage
	until  time.Time // the question is taken back then; zero: not at a known time
	result chan json.RawMessage
}

var (
	errNoInput        = protocol.Errorf(protocol.Canceled, "the client did not come back with an answer")
	errTooManyPending = protocol.Errorf(protocol.Overloaded, "too many calls wait for input of their clients")
	errPanicked       = &protocol.Error{
		Kind:    protocol.ExtensionError,
		Outcome: "unknown",
		Message: "the call broke off inside the server; its log says where",
	}
	errAnsweredEarly = errors.New("mcpserver: the client's request was answered before its call had ended")
)

// doWithInput is [Server.do] for a request whose result may be input_required. A request with the state of a pending
// call continues that call. The error is errAnsweredEarly if the client's request already has its answer.
func (s *Server) doWithInput(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer,
) (json.RawMessage, error) {
	state, _ := rawjson.Text(wire.Member(m.Params, "requestState"))
	if p := s.pending.get(state); p != nil {
		if !p.isOf(session, m) {
			s.log.Warn("refused answers to the questions of a call: the request is another one", "method", m.Method,
				"caller", session.Caller)
			return nil, wire.InvalidParams("requestState is of another request")
		}
		if s.pending.remove(state, p) { // only one request may continue the call
			return p.resume(ctx, peer.write, rawjson.Get(m.Params, "inputResponses"))
		}
	}
	if requesterOf(ctx).forwarded { // a forwarded request may continue a call here, not begin one
		return nil, errServerGone
	}
	p := &pendingRequest{
		server:  s,
		session: session,
		method:  m.Method,
		params:  m.Params,
		write:   peer.write,
		early:   peer.early,
	}
	peer.write, peer.requests = p.send, p
	if p.early == nil {
		return p.runApart(ctx, m, peer)
	}
	ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	return p.run(ctx, m, peer)
}

// isOf reports whether m repeats the request of p, from the same caller: a person who answered a question was asked
// about that request. It may leave out what is known.
func (p *pendingRequest) isOf(session *protocol.Session, m *jsonrpc.Message) bool {
	if p.session.Caller != session.Caller || p.session.Toolset != session.Toolset ||
		p.session.Extension != session.Extension || p.method != m.Method {
		return false
	}
	for key, sum := range sumsOf(m.Params) {
		if p.about[key] != sum {
			return false
		}
	}
	return true
}

// sumsOf returns the digests of what params say about what is called. A call that waits for its client keeps these in
// place of its params, which can be large.
func sumsOf(params json.RawMessage) map[string]rawjson.Sum {
	sums := make(map[string]rawjson.Sum)
	for _, key := range []string{"name", "arguments", "uri"} {
		if value := rawjson.Get(params, key); value != nil {
			sums[key] = rawjson.SumOf(value)
		}
	}
	return sums
}

// run makes the call. The error is errAnsweredEarly if a later request of the client is to get the outcome.
func (p *pendingRequest) run(ctx context.Context, m *jsonrpc.Message, peer *requestPeer,
) (result json.RawMessage, err error) {
	err = errPanicked // net/http recovers panics
	defer func() { result, err = p.end(result, err) }()
	result, err = p.server.do(ctx, p.session, m, peer)
	if err != nil && context.Cause(ctx) == errTooManyPending {
		err = insteadOf(err, errTooManyPending)
	}
	return result, err
}

// end ends the call with its outcome. It returns the outcome, or errAnsweredEarly if a later request of the client is
// to get the outcome.
func (p *pendingRequest) end(result json.RawMessage, err error) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.unhook != nil {
		p.unhook()
	}
	if p.done == nil {
		return result, err
	}
	p.result, p.err = result, err
	close(p.done)
	return nil, errAnsweredEarly
}

// runApart makes the call in its own goroutine, and waits for it on behalf of the client.
func (p *pendingRequest) runApart(ctx context.Context, m *jsonrpc.Message, peer *requestPeer) (json.RawMessage, error) {
	var apart context.Context
	apart, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	p.done = make(chan struct{})
	answered := p.await()
	release := mcphttp.HoldBody(ctx)
	go func() {
		defer release()
		defer p.cancel(nil)
		if until := requesterOf(apart).until; until != nil {
			defer context.AfterFunc(until, func() { p.cancel(errEnded) })()
		}
		_, _ = p.run(apart, m, peer) // wait returns the outcome
	}()
	return p.wait(ctx, answered)
}

// await makes an early answer go to the returned channel.
func (p *pendingRequest) await() (answered chan json.RawMessage) {
	answered = make(chan json.RawMessage, 1)
	p.early = func(result json.RawMessage) error {
		answered <- result
		return nil
	}
	return answered
}

// wait waits on behalf of the client until the call has ended or needs input.
func (p *pendingRequest) wait(ctx context.Context, answered chan json.RawMessage) (json.RawMessage, error) {
	select {
	case result := <-answered:
		return result, nil
	case <-p.done:
	case <-ctx.Done():
		p.cancel(context.Cause(ctx))
		<-p.done
	}
	select {
	case result := <-answered: // the client's next request gets the outcome
		return result, nil
	default:
		return p.result, p.err
	}
}

// send sends a message of the extension to the client; between the client's requests it drops the message.
func (p *pendingRequest) send(ctx context.Context, m *jsonrpc.Message) error {
	p.mu.Lock()
	write := p.write
	p.mu.Unlock()
	if write == nil {
		return nil
	}
	return write(ctx, m)
}

// resume connects the call to the client's next request, delivers the answers in it, and waits for the call.
// Questions without an answer are asked again.
func (p *pendingRequest) resume(ctx context.Context, write writer, responses json.RawMessage) (json.RawMessage, error) {
	p.mu.Lock()
	p.expiry.Stop()
	p.write = write
	answered := p.await()
	for key, value := range rawjson.Members(responses) {
		if input := p.inputs[key]; input != nil && value[0] == '{' {
			delete(p.inputs, key)
			input.result <- value // buffered: there is one answer
		}
	}
	if len(p.inputs) > 0 {
		_ = p.suspendLocked() // an error ends the call and becomes its outcome
	}
	p.mu.Unlock()
	return p.wait(ctx, answered)
}

// sendRequest implements [requestSender].
func (p *pendingRequest) sendRequest(ctx context.Context, method string, params json.RawMessage, _ writer,
) (json.RawMessage, error) {
	if err := wire.CheckCapability(p.session.Capabilities, method, params); err != nil {
		return nil, err
	}
	until, _ := ctx.Deadline()
	input := &inputRequest{method, params, until, make(chan json.RawMessage, 1)}
	key, err := p.ask(ctx, input)
	if err != nil {
		return nil, err
	}
	select {
	case result := <-input.result:
		return result, nil
	case <-ctx.Done():
		p.mu.Lock()
		delete(p.inputs, key)
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// ask asks the client: at once if a request of the client waits for the call, else when the client returns.
func (p *pendingRequest) ask(ctx context.Context, input *inputRequest) (key string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended:
		return "", errAnswered
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	}
	if p.inputs == nil {
		p.inputs = make(map[string]*inputRequest)
	}
	p.lastKey++
	key = "q" + strconv.FormatUint(p.lastKey, 10)
	p.inputs[key] = input
	if err := p.suspendLocked(); err != nil {
		delete(p.inputs, key)
		return "", err
	}
	return key, nil
}

// suspendLocked answers the client's request with the open questions and keeps the call until the client's next
// request. On error the call is cancelled.
func (p *pendingRequest) suspendLocked() error {
	if p.early == nil || p.ended {
		return nil
	}
	if p.state == "" {
		p.state = p.server.withHome(statePrefix + rand.Text())
		p.about, p.params = sumsOf(p.params), nil
		p.unhook = context.AfterFunc(p.server.closing, func() { p.cancel(errEnded) })
	}
	wait := inputTimeout
	for _, input := range p.inputs {
		wait = max(wait, time.Until(input.until))
	}
	p.expiry = time.AfterFunc(wait, func() {
		if p.server.pending.remove(p.state, p) {
			p.cancel(errNoInput)
		}
	})
	if !p.server.pending.add(p.state, p) {
		p.expiry.Stop()
		p.cancel(errTooManyPending)
		return errTooManyPending
	}
	early, first := p.early, p.done == nil
	p.early, p.write = nil, nil
	if first {
		p.done = make(chan struct{})
	}
	if err := early(p.questions()); err != nil { // the client has disconnected
		p.expiry.Stop()
		if p.server.pending.remove(p.state, p) && first {
			p.done = nil
		} // else the client got the questions despite the error, and its next request gets the outcome
		p.cancel(errNoInput)
		return errNoInput
	}
	return nil
}

// questions returns the input_required result for the client.
func (p *pendingRequest) questions() json.RawMessage {
	result := []byte(`{"resultType":"input_required","inputRequests":{`)
	for key, input := range p.inputs {
		if result[len(result)-1] != '{' {
			result = append(result, ',')
		}
		result = append(append(append(result, '"'), key...), `":{"method":`...)
		result = append(rawjson.AppendText(result, input.method), `,"params":`...)
		result = append(append(result, orEmpty(input.params)...), '}')
	}
	return append(append(append(result, `},"requestState":"`...), p.state...), `"}`...)
}

// pendingCalls is a bounded table of the calls that wait for their client's next request, by requestState.
type pendingCalls struct {
	limit int

	mu      sync.Mutex
	byState map[string]*pendingRequest
}

// add adds p, or returns false if the table is full.
func (c *pendingCalls) add(state string, p *pendingRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byState) >= c.limit {
		return false
	}
	c.byState[state] = p
	return true
}

// get returns the call with this state, or nil.
func (c *pendingCalls) get(state string) *pendingRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byState[state]
}

// remove removes p, and returns false if it is no longer in the table.
func (c *pendingCalls) remove(state string, p *pendingRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byState[state] != p {
		return false
	}
	delete(c.byState, state)
	return true
}
