package mcpserver

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// writer sends one message to a client; it may block until ctx ends.
type writer func(ctx context.Context, m *jsonrpc.Message) error

// conversation is one client's stay: a stdio stream, an HTTP session or an SSE
// stream. It knows the requests in flight by id, so that they can be cancelled,
// and the questions put to the client, so that they can be answered.
type conversation struct {
	server *Server
	id     string // unguessable
	caller string
	front  string            // the one extension it is about; "" for all
	env    map[string]string // see [WithEnv]
	write  writer            // reaches the client outside any request

	attached context.Context // ends with the conversation
	detach   context.CancelFunc
	ready    atomic.Bool // the client has seen the answer to initialize

	mu       sync.Mutex
	session  *protocol.Session                  // nil before initialize
	requests map[string]context.CancelCauseFunc // not answered yet, by raw id
	running  int                                // requests not done with, the writing of their answers included
	streams  int                                // open GET streams, while they keep the session alive
	asked    map[string]chan *jsonrpc.Message   // questions to the client, by raw id
	lastID   uint64
	ended    bool
	drained  chan struct{} // closed when none is running any more; nil until somebody waits
	idle     *time.Timer   // ends an HTTP session; nil for the others
	rested   time.Time     // when the last request or stream of an HTTP session ended

	// The following are set before the conversation is shared.
	onEnd   func()          // called, perhaps repeatedly, when the conversation ends
	outbox  *mcphttp.Outbox // of an HTTP session
	channel *duplex         // of an SSE stream
}

var (
	errCancelled = protocol.Errorf(protocol.Canceled, "cancelled by the client")
	errEnded     = protocol.Errorf(protocol.ShuttingDown, "the session has ended")
)

func (s *Server) newConversation(ctx context.Context, id string, visit visit, front string, write writer) *conversation {
	c := &conversation{server: s, id: id, caller: visit.caller, env: visit.env, front: front, write: write,
		onEnd: func() {}, requests: make(map[string]context.CancelCauseFunc), asked: make(map[string]chan *jsonrpc.Message)}
	c.attached, c.detach = context.WithCancel(ctx)
	return c
}

// initialize opens the session and returns the result for the client, who waits for it
// as long as ctx. A session that is refused is none: it can be asked for again.
func (c *conversation) initialize(ctx context.Context, params json.RawMessage) (result json.RawMessage, err error) {
	var p struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}
	if err := json.Unmarshal(orEmpty(params), &p); err != nil || p.ProtocolVersion == "" {
		return nil, invalidParams("initialize needs protocolVersion")
	}
	version := negotiate(p.ProtocolVersion)
	session := &protocol.Session{ID: c.id, Caller: c.caller, Version: version, Extension: c.front, Env: c.env,
		Capabilities: p.Capabilities, ClientInfo: p.ClientInfo, Client: sessionClient{c}}
	if !c.open(session) {
		return nil, errInitialized
	}
	attached, detach := context.WithCancel(c.attached)
	defer func() {
		if err != nil {
			detach()
			c.refused()
		}
	}()
	if err := c.server.backend.Attach(attached, session); err != nil {
		return nil, err
	}
	return c.server.initializeResult(ctx, session)
}

func (c *conversation) current() *protocol.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

func (c *conversation) open(session *protocol.Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil {
		return false
	}
	c.session = session
	return true
}

func (c *conversation) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}

// begin registers a request. The context it returns ends when the client cancels
// the request; release must be called before the request is answered, and finish
// when it has been.
func (c *conversation) begin(ctx context.Context, id json.RawMessage) (context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return nil, errEnded
	case c.requests[string(id)] != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is in flight"}
	case c.running >= c.server.options.MaxInFlight:
		return nil, protocol.Errorf(protocol.Overloaded, "%d requests of this client are in flight", c.running)
	}
	c.running++
	ctx, cancel := context.WithCancelCause(ctx)
	c.requests[string(id)] = cancel
	return ctx, nil
}

// release forgets a request whose answer is there: it cannot be cancelled any
// more, and once the client has read the answer it may use the id again.
func (c *conversation) release(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[string(id)](nil)
	delete(c.requests, string(id))
}

func (c *conversation) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.restLocked()
}

// restLocked sees to what waits for the conversation to fall silent.
func (c *conversation) restLocked() {
	if c.running > 0 {
		return
	}
	if c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
	if c.idle != nil && c.streams == 0 && !c.ended {
		c.rested = time.Now()
		c.idle.Reset(c.server.options.SessionIdle)
	}
}

// idleSince returns since when an HTTP session has done nothing; false while it
// does something, and for conversations that end with their connection.
func (c *conversation) idleSince() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rested, c.idle != nil && c.running == 0 && c.streams == 0 && !c.ended
}

// idleEnd is the idle timer's. A request that came meanwhile sets it again.
func (c *conversation) idleEnd() {
	c.mu.Lock()
	quiet := c.running == 0 && c.streams == 0
	c.ended = c.ended || quiet
	c.mu.Unlock()
	if quiet {
		c.end(errEnded)
	}
}

// stream counts an open stream of the session: 1 when it opens, -1 when it ends.
func (c *conversation) stream(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams += n
	c.restLocked()
}

// wait waits until no request is running or ctx ends.
func (c *conversation) wait(ctx context.Context) {
	c.mu.Lock()
	if c.running == 0 {
		c.mu.Unlock()
		return
	}
	if c.drained == nil {
		c.drained = make(chan struct{})
	}
	drained := c.drained
	c.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// cancel ends the request that a notifications/cancelled names, if it is there.
func (c *conversation) cancel(params json.RawMessage) {
	id := rawjson.Get(params, "requestId")
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.requests[string(id)]; cancel != nil {
		cancel(errCancelled)
	}
}

// end ends the conversation: it detaches the session and, when cause is not nil,
// cancels what is in flight. It does not wait and is idempotent.
func (c *conversation) end(cause error) {
	c.mu.Lock()
	c.ended = true
	if c.idle != nil {
		c.idle.Stop()
	}
	if cause != nil {
		for _, cancel := range c.requests {
			cancel(cause)
		}
	}
	c.mu.Unlock()
	c.detach()
	c.onEnd()
}

func orEmpty(params json.RawMessage) json.RawMessage {
	if params == nil {
		return emptyObject
	}
	return params
}
