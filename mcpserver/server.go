package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver/internal/forward"
	"github.com/exthost/exthost/mcpserver/internal/table"
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// Backend runs the requests of a Server's clients.
type Backend interface {
	// Attach registers s until ctx ends for notifications that belong to no request,
	// such as notifications/tools/list_changed. It returns at once. An error refuses
	// the session.
	Attach(ctx context.Context, s *protocol.Session) error
	// Do runs one request or notification of any method and returns the raw result.
	// ctx ends when the client cancels the request or disconnects. c.Client must not
	// be used after Do has returned.
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
}

// Describer is a Backend that describes itself to clients. For other backends the
// Options do.
type Describer interface {
	// Describe returns the description for the handshake of s, whose Extension and
	// Version are set. An error refuses the session.
	Describe(ctx context.Context, s *protocol.Session) (protocol.Description, error)
}

// Mirrored is a Backend whose tools may want arguments repeated in HTTP headers, for
// intermediaries that route by them.
type Mirrored interface {
	// Mirrored returns the input schema of the tool that the client of s calls by that
	// name, or nil if the schema has no x-mcp-header.
	Mirrored(s *protocol.Session, tool string) json.RawMessage
}

// Options configures a Server. The zero value serves tools.
type Options struct {
	Name         string // the server's name in the handshake; default "exthost"
	Version      string // the server's version in the handshake; default "0.0.0"
	Instructions string // advice to the client's model; "" sends none; a Describer overrides it

	// Capabilities are the server's MCP capabilities, a JSON object; default
	// {"tools":{"listChanged":true}}. They determine the notifications that clients may
	// subscribe to. A Describer overrides them.
	Capabilities json.RawMessage
	Elsewhere    Elsewhere    // the other servers behind the address of this one; nil: there are none
	Headers      []string     // HTTP headers that policies of category authentication get, besides Authorization
	Logger       *slog.Logger // nil logs nothing

	MaxBody     int64 // bytes in one message of a client; default 16 MiB
	MaxInFlight int   // concurrent requests of one session, more are answered overloaded; default 256
	// concurrent HTTP sessions and subscriptions, idle sessions make room, beyond that 429; default 1024
	MaxSessions  int
	SessionIdle  time.Duration // until an HTTP session without request and stream ends; default 30 min
	DrainTimeout time.Duration // for requests to finish after the end of stdin; default 5 s
}

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "exthost")
	o.Version = cmp.Or(o.Version, "0.0.0")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MaxBody = cmp.Or(o.MaxBody, 16<<20)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 256)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1024)
	o.SessionIdle = cmp.Or(o.SessionIdle, 30*time.Minute)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	if o.Capabilities == nil {
		o.Capabilities = json.RawMessage(`{"tools":{"listChanged":true}}`)
	}
	return o
}

// Elsewhere reaches the other servers behind one address, whose sessions any of them may be asked for.
type Elsewhere interface {
	// Home is the end of the ids of this server's sessions, and of its calls that wait for input,
	// by which others reach it: letters and digits, no two servers have one.
	Home() string
	// Forward carries a request to the server with another home, and writes the response to w as it
	// comes. began reports whether w has been written to. The error, a *protocol.Error, says why the
	// response is missing or cut; it is node_lost without an outcome if no server has that home.
	Forward(ctx context.Context, w http.ResponseWriter, home string, request []byte) (began bool, err error)
	// Homes returns the homes of the other servers that are there.
	Homes() []string
	// ServeForwarded is told, once, what serves the requests that others carry here: serve writes the
	// response to w. ctx ends when the client disconnects.
	ServeForwarded(serve func(ctx context.Context, w http.ResponseWriter, request []byte))
}

// Server serves a backend to MCP clients, over any number of transports at once.
type Server struct {
	backend  Backend
	options  Options
	log      *slog.Logger
	sessions *sessions
	others   *forward.Others               // nil: there are none
	bodies   *mcphttp.Budget               // of the requests that others carry here
	pending  *table.Table[*pendingRequest] // calls that wait for their client's next request, by state
	headers  []string                      // that policies get
	nameless sync.Once                     // the log says that some clients cannot be told apart

	closing context.Context // ends with Close
	close   context.CancelFunc
}

// Close ends all sessions, streams and subscriptions after the messages that wait on
// them, and refuses new ones with 503. Requests in flight over HTTP go on, because
// the HTTP server owns their contexts. Close is idempotent and does not wait.
func (s *Server) Close() {
	s.close()
	for _, c := range s.sessions.all() {
		c.end(nil)
	}
}

// requester is the sender of an HTTP request, as the middleware identified it.
type requester struct {
	caller, toolset, toolMode string            // see [WithCaller], [WithToolset] and [WithToolMode]
	env                       map[string]string // see [WithEnv]
	until                     context.Context   // see [WithUntil]; nil: without an end
	expiry                    time.Time         // see [WithExpiry]; zero: never
	remote                    bool              // from another machine
	forwarded                 bool              // by another server, see [Elsewhere]
}

type requesterKey struct{}

// WithCaller returns a context whose HTTP request is made by the named,
// authenticated caller. It is for the middleware in front of a Server: only the
// caller that opened a session may use it.
func WithCaller(ctx context.Context, caller string) context.Context {
	return with(ctx, func(by *requester) { by.caller = caller })
}

// WithToolset returns a context whose client has the named toolset of the backend, see
// [protocol.Session.Toolset]; "" for everything. A session is one of the toolset that it was
// opened with.
func WithToolset(ctx context.Context, toolset string) context.Context {
	return with(ctx, func(by *requester) { by.toolset = toolset })
}

// WithToolMode returns a context whose client is listed tools in that mode, see [protocol.Session.ToolMode].
func WithToolMode(ctx context.Context, mode string) context.Context {
	return with(ctx, func(by *requester) { by.toolMode = mode })
}

// WithEnv returns a context whose HTTP request, if it opens a session, sets these
// environment variables for the session's own instance.
func WithEnv(ctx context.Context, env map[string]string) context.Context {
	return with(ctx, func(by *requester) { by.env = env })
}

// WithUntil returns a context whose HTTP request, if it opens a session, opens one that ends with until.
// It is for callers whose token may end before they leave. It does not end the request, but a call that
// outlives the request because it waits for input of the client.
func WithUntil(ctx, until context.Context) context.Context {
	return with(ctx, func(by *requester) { by.until = until })
}

// WithExpiry returns a context whose caller's access token expires at that time. A stream that answers no call
// ends then: that of a session, a subscription of MCP 2026-07-28, and the stream of MCP 2024-11-05, with its
// session. A call that has begun goes on, and a session stays for requests that have a new token.
func WithExpiry(ctx context.Context, at time.Time) context.Context {
	return with(ctx, func(by *requester) { by.expiry = at })
}

// whileValid returns the context of a stream of ctx's request, which ends with the access token of the caller too.
func whileValid(ctx context.Context) (context.Context, context.CancelFunc) {
	if at := requesterOf(ctx).expiry; !at.IsZero() {
		return context.WithDeadline(ctx, at)
	}
	return context.WithCancel(ctx)
}

// CallerOf returns the caller that [WithCaller] named, or "".
func CallerOf(ctx context.Context) string { return requesterOf(ctx).caller }

// ToolsetOf returns the toolset that [WithToolset] named, or "".
func ToolsetOf(ctx context.Context) string { return requesterOf(ctx).toolset }

func with(ctx context.Context, change func(*requester)) context.Context {
	by := requesterOf(ctx)
	change(&by)
	return context.WithValue(ctx, requesterKey{}, by)
}

func requesterOf(ctx context.Context) requester {
	by, _ := ctx.Value(requesterKey{}).(requester)
	return by
}

// requesterFrom is requesterOf for a request of HTTP.
func requesterFrom(r *http.Request) requester {
	by := requesterOf(r.Context())
	by.remote = by.forwarded || wire.Remote(r)
	return by
}

func (r requester) session(front, version, extension string, capabilities json.RawMessage) *protocol.Session {
	return &protocol.Session{
		Front:        front,
		Remote:       r.remote,
		Since:        time.Now(),
		Caller:       r.caller,
		Toolset:      r.toolset,
		ToolMode:     r.toolMode,
		Env:          r.env,
		Version:      version,
		Extension:    extension,
		Capabilities: capabilities,
	}
}
