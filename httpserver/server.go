package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/accesstoken"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// Options configures a Server.
type Options struct {
	Backend mcpserver.Backend // what MCP clients reach; required
	MCP     mcpserver.Options // the server's name towards them, and the limits, among them MaxBody
	Serves  func(string) bool // whether /{id}/mcp is of an extension; nil: there are no such routes
	Ready   func() error      // why /readyz is to say 503; nil is always ready
	Bridge  Bridge            // the destinations among these, and their ports; nil: there are none
	Metrics http.Handler      // served on /metrics; nil: no such route
	Admin   http.Handler      // the operator's API, see [Admin], below /api/v1, with its dashboard on /ui; nil: no such routes

	Listen         string   // host:port; default 127.0.0.1:7800
	OperatorToken  string   // also opens everything, alone the API, and the ports of destinations where there is no Token; required with Admin
	OAuth          *OAuth   // also takes access tokens, but for the API; nil takes none
	Token          string   // what Authorization: Bearer must show everywhere but on /healthz; "" allows loopback only
	AllowedOrigins []string // scheme://host[:port] of web pages, besides this server's own
	AllowedHosts   []string // names this server goes by, besides localhost and the host in Listen
	CertFile       string   // PEM; with KeyFile, serves TLS; "" serves plain HTTP
	KeyFile        string

	Logger          *slog.Logger  // nil logs nothing
	MaxBodies       int64         // bytes that the bodies of requests hold together, the first 16 KiB of each aside; default 8 times MCP.MaxBody
	MaxConns        int           // connections at once, more are closed; default 4096
	ShutdownTimeout time.Duration // how long requests may still run when Serve is to end; default 5 s
}

const (
	defaultListen = "127.0.0.1:7800"
	defaultBody   = 16 << 20
	headerTimeout = 10 * time.Second
	headerBytes   = 64 << 10
	idleTimeout   = 2 * time.Minute
	lastWords     = time.Second // for requests to end once they are cancelled
)

func (o Options) withDefaults() Options {
	if o.Listen == "" {
		o.Listen = defaultListen
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MCP.Logger == nil {
		o.MCP.Logger = o.Logger
	}
	if o.MaxConns == 0 {
		o.MaxConns = 4096
	}
	if o.MaxBodies == 0 {
		o.MaxBodies = 8 * cmp.Or(o.MCP.MaxBody, defaultBody)
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = 5 * time.Second
	}
	return o
}

// Server serves MCP over HTTP.
type Server struct {
	options Options
	mcp     *mcpserver.Server
	routes  http.Handler
	ports   *ports
	bodies  *mcphttp.Budget
	tokens  *accesstoken.Verifier // nil without OAuth
	conns   atomic.Int64
	ending  context.Context // ends when streams are to
	end     context.CancelFunc

	certificate atomic.Pointer[tls.Certificate]
}

// New returns a Server, which does not listen yet. It panics without a backend, and
// with an operator's API that anybody could reach.
func New(o Options) *Server {
	if o.Backend == nil {
		panic("httpserver: no backend")
	}
	if o.Admin != nil && o.OperatorToken == "" {
		panic("httpserver: no token for the operator")
	}
	o = o.withDefaults()
	s := &Server{options: o, mcp: mcpserver.New(o.Backend, o.MCP), bodies: mcphttp.NewBudget(o.MaxBodies)}
	s.ending, s.end = context.WithCancel(context.Background())
	s.tokens, s.ports = s.newTokens(), &ports{server: s, open: make(map[string]*port)}
	s.routes = s.newRoutes()
	return s
}

// Listen opens the address that Options.Listen states. The error is a
// *protocol.Error of kind config_invalid.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.options.Listen)
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "cannot listen: %w; choose another address with listen", err)
	}
	return l, nil
}

// Serve serves connections of l until ctx ends, which is no error: streams are
// then ended, requests may finish within ShutdownTimeout and are cancelled after
// it. It refuses, with a *protocol.Error of kind config_invalid, an address that
// other machines can reach when there is no token, and an allowed origin that is
// none. It closes l and may be called once.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.endStreams()
	guard, err := s.newGuard(s.options.Listen, false, !isLoopback(l.Addr()), s.routes)
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
	defer s.bridge(ctx, running)()
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

// endStreams ends what lasts until somebody ends it, in good order.
func (s *Server) endStreams() {
	s.mcp.Close()
	s.end()
}

// bridge opens the ports of destinations until ctx ends. The function it returns
// closes them, and waits for the requests that came by them.
func (s *Server) bridge(ctx, requests context.Context) (end func()) {
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

func (s *Server) newHTTP(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ConnState:         s.count,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
}

func (s *Server) accept(server *http.Server, l net.Listener) error {
	if s.options.CertFile != "" {
		server.TLSConfig = s.tlsConfig()
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// count keeps the number of connections bounded.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.conns.Add(1) > int64(s.options.MaxConns) {
			_ = c.Close() // counted down when the server notices
		}
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	}
}

// shutdown ends a server: new requests are refused, requests may finish, are
// cancelled, are cut off.
func (s *Server) shutdown(server *http.Server, patience time.Duration, cancel context.CancelFunc) {
	if shutdownWithin(server, patience) != nil {
		cancel()
		if shutdownWithin(server, lastWords) != nil {
			s.options.Logger.Warn("some HTTP requests did not end and were cut off")
			_ = server.Close()
		}
	}
}

func shutdownWithin(server *http.Server, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return server.Shutdown(ctx)
}

// isLoopback reports whether only this machine can connect to addr.
func isLoopback(addr net.Addr) bool {
	switch addr := addr.(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
