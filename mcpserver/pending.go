package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// A modern server sends no requests. It answers with a result of resultType
// input_required, which holds the requests, and the client repeats its own request
// with their results and the requestState (MCP 2026-07-28, basic/patterns/mrtr). A
// legacy extension sends its requests during the call and waits for the results, so
// its call stays pending in a goroutine between the client's requests.

// inputTimeout is how long a client may take to return with the results.
const inputTimeout = 5 * time.Minute

// mayNeedInput are the methods whose result may be input_required.
var mayNeedInput = map[string]bool{protocol.MethodToolsCall: true, protocol.MethodPromptsGet: true, protocol.MethodResourcesRead: true}

// pendingRequest is a call in the backend that may need input from its client.
type pendingRequest struct {
	server  *Server
	state   string // the requestState, unguessable
	session *protocol.Session
	method  string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	done    chan struct{} // closed once result and err are set
	result  json.RawMessage
	err     error

	mu      sync.Mutex
	write   writer                   // reaches the client; nil between its requests
	inputs  map[string]*inputRequest // without a result, by key
	lastKey uint64
	needed  chan struct{} // holds a token when inputs has grown
	expiry  *time.Timer   // cancels the call; runs between the client's requests
}

// inputRequest is a request of the extension that waits for its result.
type inputRequest struct {
	method string
	params json.RawMessage
	result chan json.RawMessage
}

var (
	errNoInput        = protocol.Errorf(protocol.Canceled, "the client did not come back with an answer")
	errTooManyPending = protocol.Errorf(protocol.Overloaded, "too many calls wait for input of their clients")
)

// doWithInput is [Server.do] for a request whose result may be input_required. A
// request with the state of a pending call continues that call.
func (s *Server) doWithInput(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer) (json.RawMessage, error) {
	state, _ := rawjson.Text(wire.Member(m.Params, "requestState"))
	p := s.pending.get(state)
	if p != nil && (p.session.Caller != session.Caller || p.session.Extension != session.Extension || p.method != m.Method) {
		return nil, wire.InvalidParams("requestState is of another request")
	}
	if p == nil || !s.pending.remove(p) { // only one request may continue the call
		return s.startPending(ctx, session, m, peer).wait(ctx)
	}
	p.resume(peer.write, rawjson.Get(m.Params, "inputResponses"))
	return p.wait(ctx)
}

// startPending starts a call in the backend.
func (s *Server) startPending(ctx context.Context, session *protocol.Session, m *jsonrpc.Message, peer *requestPeer) *pendingRequest {
	p := &pendingRequest{server: s, state: "exthost-" + rand.Text(), session: session, method: m.Method, write: peer.write,
		done: make(chan struct{}), inputs: make(map[string]*inputRequest), needed: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	peer.write, peer.requests = p.send, p
	release := mcphttp.HoldBody(ctx)
	go func() {
		defer close(p.done)
		defer release()
		defer context.AfterFunc(s.closing, func() { p.cancel(errEnded) })()
		p.result, p.err = s.do(p.ctx, session, m, peer)
	}()
	return p
}

// wait waits on behalf of the client until the call has ended or needs input.
func (p *pendingRequest) wait(ctx context.Context) (json.RawMessage, error) {
	for {
		select {
		case <-p.needed:
			if result, err := p.suspend(); result != nil || err != nil {
				return result, err
			}
		case <-p.done:
			return p.result, p.err
		case <-ctx.Done():
			p.cancel(context.Cause(ctx))
			<-p.done
			return p.result, p.err
		}
	}
}

// send sends a message of the extension to the client, or drops the message between
// the client's requests.
func (p *pendingRequest) send(ctx context.Context, m *jsonrpc.Message) error {
	p.mu.Lock()
	write := p.write
	p.mu.Unlock()
	if write == nil {
		return nil
	}
	return write(ctx, m)
}

// sendRequest implements [requestSender].
func (p *pendingRequest) sendRequest(ctx context.Context, method string, params json.RawMessage, _ writer) (json.RawMessage, error) {
	if err := wire.CheckCapability(p.session.Capabilities, method, params); err != nil {
		return nil, err
	}
	input := &inputRequest{method, params, make(chan json.RawMessage, 1)}
	p.mu.Lock()
	p.lastKey++
	key := "q" + strconv.FormatUint(p.lastKey, 10)
	p.inputs[key] = input
	p.signalLocked()
	p.mu.Unlock()
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

func (p *pendingRequest) signalLocked() {
	select {
	case p.needed <- struct{}{}:
	default:
	}
}

// suspend returns the input_required result for the client and keeps the call for
// its next request. It returns nil if no input is needed any more, because the
// requests for it were cancelled or have their results.
func (p *pendingRequest) suspend() (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.inputs) == 0 {
		return nil, nil
	}
	result := []byte(`{"resultType":"input_required","inputRequests":{`)
	for key, input := range p.inputs {
		if result[len(result)-1] != '{' {
			result = append(result, ',')
		}
		result = append(append(append(result, '"'), key...), `":{"method":`...)
		result = append(rawjson.AppendText(result, input.method), `,"params":`...)
		result = append(append(result, orEmpty(input.params)...), '}')
	}
	result = append(append(append(result, `},"requestState":"`...), p.state...), `"}`...)
	p.write = nil
	p.expiry = time.AfterFunc(inputTimeout, func() {
		if p.server.pending.remove(p) {
			p.cancel(errNoInput)
		}
	})
	if !p.server.pending.add(p) {
		p.expiry.Stop()
		p.cancel(errTooManyPending)
		return nil, errTooManyPending
	}
	return result, nil
}

// resume connects the call to the client's next request and delivers the results in
// it. Inputs without a result are requested again.
func (p *pendingRequest) resume(write writer, responses json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expiry.Stop()
	p.write = write
	for key, value := range rawjson.Members(responses) {
		if input := p.inputs[key]; input != nil && value[0] == '{' {
			delete(p.inputs, key)
			input.result <- value // has room for the one result
		}
	}
	if len(p.inputs) > 0 {
		p.signalLocked()
	}
}

// pendingRequests is the table of the calls that wait for their client's next
// request.
type pendingRequests struct {
	limit int

	mu      sync.Mutex
	byState map[string]*pendingRequest
}

// add adds p, or returns false if the table is full.
func (t *pendingRequests) add(p *pendingRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byState) >= t.limit {
		return false
	}
	t.byState[p.state] = p
	return true
}

func (t *pendingRequests) get(state string) *pendingRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byState[state]
}

// remove removes p. It returns false if another request or the expiry has removed p.
func (t *pendingRequests) remove(p *pendingRequest) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byState[p.state] != p {
		return false
	}
	delete(t.byState, p.state)
	return true
}
