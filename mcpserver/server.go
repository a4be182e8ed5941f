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
	"github.com/exthost/exthost/mcpserver/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// Backend handles the requests of a Server's clients.
type Backend interface {
	// Attach registers s to get the notifications that belong to no request, such as notifications/tools/list_changed,
	// until ctx ends. It does not block. An error refuses the session.
	Attach(ctx context.Context, s *protocol.Session) error
	// Do runs one request or notification and returns the raw result. ctx ends when the client cancels the request or
	// disconnects. c.Client must not be used after Do has returned.
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
}

// Describer is a Backend that describes itself to clients; other backends are described by the Options.
type Describer interface {
	// Describe returns the description for the handshake of s, whose Extension and Version are set. An error refuses
	// the session.
	Describe(ctx context.Context, s *protocol.Session) (protocol.Description, error)
}

// RejectionReporter is a Backend that says how calls that it rejects are reported; other backends report results.
type RejectionReporter interface {
	// RejectionErrors reports whether a tools/call that was rejected is answered with a JSON-RPC error, and not with a
	// result that explains it to a model.
	RejectionErrors() bool
}

// Mirrored is a Backend with tools whose arguments must be repeated in HTTP headers, so that intermediaries can route
// by the headers.
type Mirrored interface {
	// Mirrored returns the input schema of the named tool as the client of s sees it, or nil if the schema has no
	// x-mcp-header.
	Mirrored(s *protocol.Session, tool string) json.RawMessage
}

// Options configures a Server. The zero value serves tools.
type Options struct {
	Name         string // the server's name in the handshake; default "exthost"
	Version      string // the server's version in the handshake; default "0.0.0"
	Instructions string // advice to the client's model; "" sends none; a Describer overrides it

	// Capabilities are the server's MCP capabilities, a JSON object; default {"tools":{"listChanged":true}}. They
	// determine the notifications that clients may subscribe to. A Describer overrides them.
	Capabilities json.RawMessage
	Remote       RemoteServers // the other servers behind the same address; nil if there are none
	Headers      []string      // HTTP headers, besides Authorization, passed to policies of category authentication
	Logger       *slog.Logger  // nil logs nothing

	MaxBody     int64 // max bytes of one client message; default 16 MiB
	MaxInFlight int   // max concurrent requests of a session, further ones fail with overloaded; default 256
	// Max HTTP sessions and subscriptions, default 1024. When all are taken, a new one evicts an idle session or gets
	// 429.
	MaxSessions  int
	SessionIdle  time.Duration // idle time after which an HTTP session ends; default 30 min
	DrainTimeout time.Duration // time for requests to finish after stdin has ended; default 5 s
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

// Server serves a backend to MCP clients, over any number of transports at once.
type Server struct {
	backend   Backend
	options   Options
	log       *slog.Logger
	sessions  *sessions
	forwarder *forwarder      // nil without remote servers
	bodies    *mcphttp.Budget // budget for the bodies of forwarded requests
	pending   pendingCalls
	headers   []string  // HTTP headers passed to policies
	nameless  sync.Once // warns once about clients that cannot be told apart

	closing context.Context // ends with Close
	close   context.CancelFunc
}

// Close ends all sessions, streams and subscriptions after their queued messages are sent, and refuses new ones with
// 503. HTTP requests in flight go on: the HTTP server owns their contexts. Close is idempotent and does not wait.
func (s *Server) Close() {
	s.close()
	for _, c := range s.sessions.all() {
		c.end(nil)
	}
}

// withHome appends the home of this server to an id, if there are remote servers.
func (s *Server) withHome(id string) string {
	if s.options.Remote == nil {
		return id
	}
	return id + "." + s.options.Remote.Home()
}

// requester is the sender of an HTTP request, as identified by the middleware.
type requester struct {
	caller, toolset, toolMode string            // see [WithCaller], [WithToolset] and [WithToolMode]
	env                       map[string]string // see [WithEnv]
	until                     context.Context   // see [WithUntil]; nil: never ends
	expiry                    time.Time         // see [WithExpiry]; zero: never
	remote                    bool              // from another machine
	forwarded                 bool              // received and forwarded by another server, see [RemoteServers]
}

type requesterKey struct{}

// WithCaller sets the authenticated caller of an HTTP request. It is for middleware in front of a Server. Only the
// caller that opened a session may use it.
func WithCaller(ctx context.Context, caller string) context.Context {
	return with(ctx, func(by *requester) { by.caller = caller })
}

// WithToolset sets the client's toolset, see [protocol.Session.Toolset]; "" is everything. A session keeps the
// toolset that it was opened with.
func WithToolset(ctx context.Context, toolset string) context.Context {
	return with(ctx, func(by *requester) { by.toolset = toolset })
}

// WithToolMode sets how tools are listed to the client, see [protocol.Session.ToolMode].
func WithToolMode(ctx context.Context, mode string) context.Context {
	return with(ctx, func(by *requester) { by.toolMode = mode })
}

// WithEnv sets environment variables for the process of the session that the HTTP request opens.
func WithEnv(ctx context.Context, env map[string]string) context.Context {
	return with(ctx, func(by *requester) { by.env = env })
}

// WithUntil makes the session that the HTTP request opens end when until ends, for callers whose token may be revoked.
// The request itself goes on. If its call still waits for the client's input afterwards, the call ends with until.
func WithUntil(ctx, until context.Context) context.Context {
	return with(ctx, func(by *requester) { by.until = until })
}

// WithExpiry sets when the caller's access token expires. At that time the request's stream ends: a session's GET
// stream, a subscription of MCP 2026-07-28, or an SSE stream together with its session. Calls in flight go on, and a
// session stays for requests with a new token.
func WithExpiry(ctx context.Context, at time.Time) context.Context {
	return with(ctx, func(by *requester) { by.expiry = at })
}

// whileValid returns a context for a stream that also ends when the caller's access token expires.
func whileValid(ctx context.Context) (context.Context, context.CancelFunc) {
	if at := requesterOf(ctx).expiry; !at.IsZero() {
		return context.WithDeadline(ctx, at)
	}
	return context.WithCancel(ctx)
}

// CallerOf returns the caller set by [WithCaller], or "".
func CallerOf(ctx context.Context) string { return requesterOf(ctx).caller }

// ToolsetOf returns the toolset set by [WithToolset], or "".
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

// requesterFrom is requesterOf for an HTTP request.
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
