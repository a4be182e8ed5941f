package httpserver

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/secret/accesstoken"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/status"
)

// Options configures a Server.
type Options struct {
	Backend mcpserver.Backend // serves MCP clients; required
	MCP     mcpserver.Options // the server's name for MCP clients, and limits such as MaxBody
	Serves  func(string) bool // reports whether /{id}/mcp is served for an id; nil: never
	// The toolset of clients that have none of their own; they cannot choose another. "": they see everything, and may
	// choose.
	Toolset string
	Ready   func() error // returns why /readyz answers 503; nil: always ready
	// returns what /readyz answers to the operator, besides the status; nil: nothing
	Verdict func() status.Verdict
	Bridge  exthost.Bridge // the destinations and their ports, or nil
	// The toolsets of the backend, such as [exthost.Toolsets]; nil: /t/{toolset}/mcp is not served.
	Toolsets Toolsets

	Metrics http.Handler // served on /metrics; nil: not served
	// The operator's API, see [Admin], served below /api/v1, and the dashboard on /ui; nil: neither is served.
	Admin http.Handler

	Listen        string // host:port; default 127.0.0.1:7800
	OperatorToken string // valid everywhere, and the only token for the API; required with Admin
	OAuth         *OAuth // access tokens, valid everywhere except for the API; nil accepts none
	// The bearer token for everything but /healthz and the API; "" allows only loopback, and on Linux only this user
	// and root.
	Token string
	// Further tokens, of named clients. If there are any, Token or a client's token is required. May be nil.
	Clients        Clients
	AnyLocalUser   bool     // without Token and clients, also admit other users of this machine; default false
	AllowedOrigins []string // scheme://host[:port] of web pages, besides this server's own
	AllowedHosts   []string // names of this server, besides localhost and the host in Listen
	TLS            TLS      // zero serves plain HTTP

	Logger *slog.Logger // nil logs nothing
	// Max bytes of all request bodies together, without the first 16 KiB of each; default 8 times MCP.MaxBody.
	MaxBodies int64
	// Max concurrent connections, beyond which idle ones are closed for new ones; default 4096.
	MaxConns int
	// Max connections from one address without an authenticated request; default an eighth of MaxConns.
	MaxStrangers    int
	ShutdownTimeout time.Duration // time for requests to finish when Serve ends; default 5 s
}

const (
	defaultListen = "127.0.0.1:7800"
	defaultBody   = 16 << 20
)

func (o Options) withDefaults() Options {
	o.Listen = cmp.Or(o.Listen, defaultListen)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MCP.Logger = cmp.Or(o.MCP.Logger, o.Logger)
	o.MaxConns = cmp.Or(o.MaxConns, 4096)
	o.MaxStrangers = cmp.Or(o.MaxStrangers, max(1, o.MaxConns/8))
	o.MaxBodies = cmp.Or(o.MaxBodies, 8*cmp.Or(o.MCP.MaxBody, defaultBody))
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 5*time.Second)
	return o
}

// Server serves MCP over HTTP.
type Server struct {
	options  Options
	mcp      *mcpserver.Server
	routes   http.Handler
	ports    *ports
	toolsets toolsetRule
	bodies   *mcphttp.Budget
	tokens   *accesstoken.Verifier // nil without OAuth
	keysLog  *rate.Limiter         // for log lines about missing keys
	conns    *connTable
	ending   context.Context // ends when streams must end
	end      context.CancelFunc

	certificate certificate
	badTokens   *refusalLog
	handshakes  *refusalLog
}

// New returns a Server, which does not listen yet. It panics without a backend, and with an operator's API but no
// operator's token.
func New(o Options) *Server {
	if o.Backend == nil {
		panic("httpserver: no backend")
	}
	if o.Admin != nil && o.OperatorToken == "" {
		panic("httpserver: no token for the operator")
	}
	o = o.withDefaults()
	s := &Server{options: o, mcp: mcpserver.New(o.Backend, o.MCP), bodies: mcphttp.NewBudget(o.MaxBodies)}
	s.certificate.files = o.TLS
	s.badTokens = newRefusalLog("a token was rejected", o.Logger)
	s.handshakes = newRefusalLog("a TLS handshake failed", o.Logger)
	s.ending, s.end = context.WithCancel(context.Background())
	s.conns = newConnTable(connBounds{
		max:          o.MaxConns,
		strangers:    o.MaxStrangers,
		strangerIdle: strangerIdle,
		full: func() {
			o.Logger.Warn("the bound of connections is reached, and idle ones are closed for new ones", "connections",
				o.MaxConns)
		},
	})
	s.tokens, s.keysLog = s.newTokens(), rate.NewLimiter(rate.Every(time.Minute), 1)
	s.toolsets = toolsetRule{byDefault: o.Toolset, all: o.Toolsets}
	s.ports = &ports{server: s, open: make(map[string]*port)}
	s.routes = s.newRoutes()
	return s
}

// Serve serves connections of l until ctx ends, which is not an error: streams then end, and requests may finish
// within ShutdownTimeout before they are cancelled. It returns a *protocol.Error of kind config_invalid for an
// address that other machines can reach without a token, and for an invalid allowed origin. It closes l and may be
// called only once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.endStreams()
	guard, err := s.newGuard(s.options.Listen, !isLoopback(l.Addr()), s.routes)
	if err == nil {
		err = s.ReloadTLS()
	}
	if err != nil {
		_ = l.Close()
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := s.newHTTP(running, guard)
	defer s.servePorts(ctx, running)()
	watched, unwatch := context.WithCancel(running)
	var watching sync.WaitGroup
	watching.Go(func() { s.watchCertificate(watched) })
	defer watching.Wait()
	defer unwatch()
	failed := make(chan error, 1)
	go func() { failed <- s.accept(server, l) }()
	select {
	case err := <-failed:
		cancel()
		_ = server.Close()
		return err
	case <-ctx.Done():
	}
	s.endStreams()
	s.shutdown(server, s.options.ShutdownTimeout, cancel)
	<-failed
	return nil
}

// endStreams ends sessions, subscriptions and event streams, which do not end by themselves.
func (s *Server) endStreams() {
	s.mcp.Close()
	s.end()
}

// servePorts serves the ports of destinations until ctx ends. end closes the ports and waits for their requests.
func (s *Server) servePorts(ctx, requests context.Context) (end func()) {
	if s.options.Bridge == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.ports.run(ctx, requests) })
	return func() {
		s.endStreams()
		stop()
		running.Wait()
	}
}
