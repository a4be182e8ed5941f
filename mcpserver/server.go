package mcpserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Backend is what a Server serves.
type Backend interface {
	// Attach registers s for what the backend tells its clients unasked, such as
	// notifications/tools/list_changed, until ctx ends. It returns at once. An
	// error refuses the session.
	Attach(ctx context.Context, s *protocol.Session) error
	// Do runs one request or notification, whatever its method, and returns the
	// raw result. ctx ends when the client cancels the request or is gone.
	// c.Client must not be used after Do has returned.
	Do(ctx context.Context, c *protocol.Call) (json.RawMessage, error)
}

// Describer is a Backend that knows what it offers. Of others Options say it.
type Describer interface {
	// Describe returns what a client gets to know in the handshake of s, whose
	// Extension and Version are known by then. An error refuses the session.
	Describe(ctx context.Context, s *protocol.Session) (protocol.Description, error)
}

// Mirrored is a Backend that knows what its tools want repeated in headers, for who
// routes by them.
type Mirrored interface {
	// Mirrored returns the input schema of the tool that the client of s knows by that
	// name, if it has x-mcp-header anywhere; else nil.
	Mirrored(s *protocol.Session, tool string) json.RawMessage
}

// Options configures a Server. The zero value serves tools.
type Options struct {
	Name         string // the server's name in the handshake; default "exthost"
	Version      string // the server's version in the handshake; default "0.0.0"
	Instructions string // advice to the client's model; "" sends none. A Describer knows better

	// Capabilities are the server's MCP capabilities, a JSON object; default
	// {"tools":{"listChanged":true}}. Which notifications a client may subscribe
	// to follows from them. A Describer knows better.
	Capabilities json.RawMessage
	Logger       *slog.Logger // nil logs nothing

	MaxBody      int64         // bytes in one message of a client; default 16 MiB
	MaxInFlight  int           // requests one conversation may have running, more are answered overloaded; default 256
	MaxSessions  int           // HTTP sessions and subscriptions at once, idle ones make room, beyond that 429; default 1024
	SessionIdle  time.Duration // how long an HTTP session lives without request or stream; default 30 min
	DrainTimeout time.Duration // how long requests may still run after the end of stdin; default 5 s
}

func (o Options) withDefaults() Options {
	setDefault(&o.Name, "exthost")
	setDefault(&o.Version, "0.0.0")
	setDefault(&o.MaxBody, 16<<20)
	setDefault(&o.MaxInFlight, 256)
	setDefault(&o.MaxSessions, 1024)
	setDefault(&o.SessionIdle, 30*time.Minute)
	setDefault(&o.DrainTimeout, 5*time.Second)
	if o.Capabilities == nil {
		o.Capabilities = json.RawMessage(`{"tools":{"listChanged":true}}`)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server speaks MCP to clients on behalf of a backend. It may serve any number of
// fronts at once.
type Server struct {
	backend  Backend
	options  Options
	log      *slog.Logger
	sessions *sessions
	holds    *holds

	closing context.Context // ends with Close
	close   context.CancelFunc
}

// New returns a Server for b. It panics if o.Capabilities is not a JSON object.
func New(b Backend, o Options) *Server {
	o = o.withDefaults()
	s := &Server{backend: b, options: o, log: o.Logger, sessions: newSessions(o.MaxSessions),
		holds: &holds{limit: o.MaxSessions, byName: make(map[string]*held)}}
	s.closing, s.close = context.WithCancel(context.Background())
	if err := json.Unmarshal(o.Capabilities, new(offers)); err != nil {
		panic("mcpserver: capabilities: " + err.Error())
	}
	return s
}

// Close ends every session, stream and subscription in good order and refuses new
// ones with 503. Requests in flight over HTTP go on: their contexts are the HTTP
// server's. It does not wait and is idempotent.
func (s *Server) Close() {
	s.close()
	for _, c := range s.sessions.all() {
		c.end(nil)
	}
}

// visit is who makes an HTTP request, and what he brings.
type visit struct {
	caller string
	env    map[string]string
}

type visitKey struct{}

// WithCaller returns a context whose HTTP request is made by the named,
// authenticated caller. It is for the middleware in front of a Server: sessions
// belong to the caller that opened them.
func WithCaller(ctx context.Context, caller string) context.Context {
	v := visitOf(ctx)
	v.caller = caller
	return context.WithValue(ctx, visitKey{}, v)
}

// WithEnv returns a context whose HTTP request, if it opens a session, brings these
// variables for the environment of an instance of its own.
func WithEnv(ctx context.Context, env map[string]string) context.Context {
	v := visitOf(ctx)
	v.env = env
	return context.WithValue(ctx, visitKey{}, v)
}

// CallerOf returns the caller that [WithCaller] named; "" when there is none.
func CallerOf(ctx context.Context) string { return visitOf(ctx).caller }

func visitOf(ctx context.Context) visit {
	v, _ := ctx.Value(visitKey{}).(visit)
	return v
}
