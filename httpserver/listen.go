package httpserver

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/exthost/exthost/protocol"
)

const (
	headerTimeout = 10 * time.Second
	headerBytes   = 64 << 10
	idleTimeout   = 2 * time.Minute
	strangerIdle  = 10 * time.Second // max idle time before the first authenticated request
	cancelGrace   = time.Second      // time for cancelled requests to end
)

// Listen opens the address Options.Listen. The error is a *protocol.Error of kind config_invalid.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.options.Listen)
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "cannot listen: %w; choose another address with listen",
			err)
	}
	return l, nil
}

// newHTTP returns an HTTP server whose requests run under ctx.
func (s *Server) newHTTP(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           s.conns.requests(h),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytes,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return s.conns.context(withProcess(ctx, c), c)
		},
		ConnState:   s.conns.state,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(s.newErrorLog(), "", 0),
	}
}

func (s *Server) accept(server *http.Server, l net.Listener) error {
	if s.options.TLS.Cert != "" {
		server.TLSConfig = s.certificate.config()
		return server.ServeTLS(l, "", "")
	}
	return server.Serve(l)
}

// shutdown stops a server: it refuses new requests, lets others finish within timeout, then cancels them, and a
// second later closes their connections.
func (s *Server) shutdown(server *http.Server, timeout time.Duration, cancel context.CancelFunc) {
	if shutdownWithin(server, timeout) != nil {
		cancel()
		if shutdownWithin(server, cancelGrace) != nil {
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

// isLoopback reports whether addr is reachable only from this machine.
func isLoopback(addr net.Addr) bool {
	switch addr := addr.(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// ReloadTLS reads the certificate and its key again for later connections. On failure the old ones stay in use, and
// the error is a *protocol.Error of kind config_invalid.
func (s *Server) ReloadTLS() error { return s.certificate.reload() }
