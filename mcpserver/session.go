package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// writer sends one message to a client. It may block until ctx ends.
type writer func(ctx context.Context, m *jsonrpc.Message) error

// clientSession is the session of one client: a stdio stream, an HTTP session or an SSE stream. It tracks the
// requests in flight, so that the client can cancel them, and the requests to the client, so that responses find
// them.
type clientSession struct {
	server    *Server
	id        string // unguessable
	requester requester
	extension string // the extension served; "" for all
	front     string // see protocol.Session
	write     writer // sends messages that belong to no request

	attached context.Context // ends with the session
	detach   context.CancelFunc
	ready    atomic.Bool                      // the client has received the answer to initialize
	info     atomic.Pointer[protocol.Session] // nil before initialize
	toClient *questions

	mu       sync.Mutex
	requests map[string]context.CancelCauseFunc // in flight, by raw id
	running  int                                // requests whose answers are not written yet
	ended    bool
	drained  chan struct{} // closed when no request runs; nil unless wait is waiting
	idle     idleState     // of an HTTP session

	// Set before the session is shared.
	onEnd  func()          // called at least once when the session ends
	outbox *mcphttp.Outbox // of an HTTP session
	stream *streamSession  // of an SSE stream
}

// idleState ends an HTTP session that has been idle for too long.
type idleState struct {
	streams int           // open GET streams, which keep the session alive
	since   time.Time     // end of the last request or stream
	limit   time.Duration // max idle time
	expiry  *time.Timer   // checks limit; nil for sessions that are not over HTTP
}

var (
	errCancelled = protocol.Errorf(protocol.Canceled, "cancelled by the client")
	errEnded     = protocol.Errorf(protocol.ShuttingDown, "the session has ended")
)

func (s *Server) newSession(ctx context.Context, id, front string, by requester, extension string, write writer,
) *clientSession {
	c := &clientSession{
		server:    s,
		id:        id,
		front:     front,
		requester: by,
		extension: extension,
		write:     write,
		onEnd:     func() {},
		requests:  make(map[string]context.CancelCauseFunc),
		toClient:  newQuestions(),
	}
	c.attached, c.detach = context.WithCancel(ctx)
	return c
}

// maxClient bounds the capabilities and clientInfo that a session keeps, in bytes.
const maxClient = 64 << 10

// PublicID returns the id of a session for backends: a hash of the client's id. Knowledge of the client's id is
// enough to take over the session, so policies, extensions and logs never get it.
func PublicID(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// initialize attaches the session to the backend and returns the result for the client. ctx ends when the client no
// longer waits. After an error the client may initialize again.
func (c *clientSession) initialize(ctx context.Context, params json.RawMessage) (result json.RawMessage, err error) {
	var p struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}
	if err := json.Unmarshal(orEmpty(params), &p); err != nil || p.ProtocolVersion == "" {
		return nil, wire.InvalidParams("initialize needs protocolVersion")
	}
	if size := len(p.Capabilities) + len(p.ClientInfo); size > maxClient {
		return nil, wire.InvalidParams(
			fmt.Sprintf("capabilities and clientInfo have %d bytes, and a session keeps at most %d", size, maxClient))
	}
	info := c.requester.session(c.front, wire.Negotiate(p.ProtocolVersion), c.extension, p.Capabilities)
	info.ID, info.ClientInfo, info.Client = PublicID(c.id), p.ClientInfo, sessionPeer{c}
	if !c.info.CompareAndSwap(nil, info) {
		return nil, errInitialized
	}
	attached, detach := context.WithCancel(c.attached)
	defer func() {
		if err != nil {
			detach()
			c.info.Store(nil)
		}
	}()
	if err := c.server.backend.Attach(attached, info); err != nil {
		return nil, err
	}
	d, err := c.server.describe(ctx, info)
	if err != nil {
		return nil, err
	}
	return wire.InitializeResult(info.Version, d)
}

// begin registers a request. The returned context ends when the client cancels the request. Callers call release
// before they write the answer and finish after.
func (c *clientSession) begin(ctx context.Context, id json.RawMessage) (context.Context, error) {
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

// release frees the id of a request: the client may reuse it as soon as it has read the answer.
func (c *clientSession) release(id json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[string(id)](nil)
	delete(c.requests, string(id))
}

func (c *clientSession) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.settleLocked()
}

// settleLocked restarts the idle time, and wakes wait if no request runs.
func (c *clientSession) settleLocked() {
	c.idle.since, c.idle.limit = time.Now(), c.server.options.SessionIdle
	if c.running == 0 && c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}

// idleSince returns since when an HTTP session is idle. ok is false for busy sessions and for sessions that end with
// their connection.
func (c *clientSession) idleSince() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.since, c.idle.expiry != nil && c.running == 0 && c.idle.streams == 0 && !c.ended
}

// expire ends a session that has been idle for too long, or checks again later. The timer is not reset after each
// request, since that would wake a thread.
func (c *clientSession) expire() {
	c.mu.Lock()
	left := c.server.options.SessionIdle
	if c.running == 0 && c.idle.streams == 0 {
		left = c.idle.limit - time.Since(c.idle.since)
	}
	if c.ended = c.ended || left <= 0; !c.ended {
		c.idle.expiry.Reset(left)
	}
	c.mu.Unlock()
	if left <= 0 {
		c.end(errEnded)
	}
}

// addStreams counts the open GET streams: n is 1 or -1.
func (c *clientSession) addStreams(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle.streams += n
	c.settleLocked()
}

// wait waits until no request runs or ctx ends.
func (c *clientSession) wait(ctx context.Context) {
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

// maxReason bounds the reason of a cancellation, in bytes.
const maxReason = 1 << 10

// cancelledFor is errCancelled with the reason that the client gave.
type cancelledFor string

func (r cancelledFor) Error() string { return string(r) }
func (cancelledFor) Unwrap() error   { return errCancelled }

// cancel cancels the request named in the params of notifications/cancelled. The reason reaches the extension.
func (c *clientSession) cancel(params json.RawMessage) {
	id, why := rawjson.Get(params, "requestId"), error(errCancelled)
	if reason, _ := rawjson.Text(rawjson.Get(params, "reason")); reason != "" {
		why = cancelledFor(display.Cut(reason, maxReason))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.requests[string(id)]; cancel != nil {
		cancel(why)
	}
}

// end detaches the session from the backend and, unless cause is nil, cancels the requests in flight. It is
// idempotent and does not wait.
func (c *clientSession) end(cause error) {
	c.mu.Lock()
	c.ended = true
	if c.idle.expiry != nil {
		c.idle.expiry.Stop()
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
