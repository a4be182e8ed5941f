package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/httpserver"
	"github.com/exthost/exthost/mcpserver"
)

// httpShutdown is what HTTP requests get of the 5 s in which all must end.
const httpShutdown = time.Second

// httpFront listens at once, so that a taken port is an error before any
// extension has been started.
func httpFront(cfg config.Server, log *slog.Logger) (front, error) {
	token, err := bearerToken(cfg.Auth)
	if err != nil {
		return front{}, err
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return front{}, cannotListen(cfg.Listen, err)
	}
	f := front{url: urlOf(listener.Addr(), cfg.TLS.Cert != ""), exposed: !loopback(listener.Addr())}
	if token != "" {
		f.token = cmp.Or(cfg.Auth.TokenEnv, "EXTHOST_TOKEN")
	}
	if f.exposed && token == "" && cfg.Auth.OAuth.Issuer == "" {
		listener.Close()
		return front{}, &exitError{code: exitInvalid, text: cfg.Listen + " can be reached from other machines, and no token is set",
			hint: "set server.auth.token_env in exthost.yaml, or exthost serve --listen 127.0.0.1:7800"}
	}
	if f.operator, err = newOperatorToken(); err != nil {
		listener.Close()
		return front{}, &exitError{code: exitFailed, text: "there is no place for the operator's token: " + err.Error(), hint: "let this user write there, or set XDG_STATE_HOME to another directory"}
	}
	var serving atomic.Pointer[httpserver.Server]
	f.reload = func() error {
		if s := serving.Load(); s != nil {
			return s.ReloadTLS()
		}
		return nil // it will read its files when it begins
	}
	f.serve = func(ctx context.Context, h *exthost.Host) error {
		var metrics http.Handler
		if cfg.Metrics {
			metrics = httpserver.Metrics(h)
		}
		server := httpserver.New(httpserver.Options{
			Backend: h, Serves: h.Serves, Bridge: h.Bridge(), OAuth: resourceServer(cfg.Auth.OAuth), Ready: func() error { return startedYet(h) },
			MCP:    mcpserver.Options{Name: "exthost", Version: exthost.Version(), MaxBody: int64(cfg.MaxBody)},
			Listen: cfg.Listen, Token: token, AllowedOrigins: cfg.AllowedOrigins, AllowedHosts: cfg.AllowedHosts,
			CertFile: cfg.TLS.Cert, KeyFile: cfg.TLS.Key,
			Admin: httpserver.Admin(h), OperatorToken: f.operator.text, Metrics: metrics,
			Logger: log, ShutdownTimeout: httpShutdown,
		})
		serving.Store(server)
		return server.Serve(ctx, listener)
	}
	return f, nil
}

func cannotListen(addr string, err error) error {
	e := &exitError{code: exitFailed, text: "cannot listen on " + addr + ": " + err.Error()}
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		e.text = "cannot listen on " + addr + ": " + sys.Err.Error()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		e.hint = "stop what listens there, or exthost serve --listen 127.0.0.1:0 for any free port"
	case errors.Is(err, syscall.EACCES):
		e.hint = "exthost serve --listen 127.0.0.1:7800; ports below 1024 are the system's"
	default:
		e.code, e.hint = exitInvalid, "exthost serve --listen HOST:PORT, such as 127.0.0.1:7800"
	}
	return e
}

// resourceServer is what the configuration says of access tokens; nil when nothing.
func resourceServer(o config.OAuth) *httpserver.OAuth {
	if o.Issuer == "" {
		return nil
	}
	return &httpserver.OAuth{Resource: o.Resource, Issuer: o.Issuer, Audience: o.Audience, KeysURL: o.JWKSURL, Scopes: o.Scopes}
}

// startedYet is why /readyz says no.
func startedYet(h *exthost.Host) error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if h.Ready(now) != nil {
		return errors.New("extensions are still starting")
	}
	return nil
}

// urlOf is where clients on this machine reach the address.
func urlOf(addr net.Addr, tls bool) string {
	scheme, host := "http", addr.String()
	if tls {
		scheme = "https"
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		_, port, _ := net.SplitHostPort(host)
		host = net.JoinHostPort("127.0.0.1", port)
	}
	return scheme + "://" + host
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// bearerToken is the configured token; "" when none is.
func bearerToken(auth config.Auth) (string, error) {
	switch {
	case auth.TokenEnv != "":
		token := os.Getenv(auth.TokenEnv)
		if token == "" {
			return "", &exitError{code: exitInvalid, text: "server.auth.token_env: " + auth.TokenEnv + " is not set", hint: "export " + auth.TokenEnv + "=…"}
		}
		return token, nil
	case auth.TokenFile != "":
		data, err := os.ReadFile(auth.TokenFile)
		token := strings.TrimSpace(string(data))
		if err == nil && token == "" {
			err = errors.New(auth.TokenFile + " is empty")
		}
		if err != nil {
			return "", &exitError{code: exitInvalid, text: "server.auth.token_file: " + err.Error(), hint: "exthost config show --origin says where it is set"}
		}
		return token, nil
	}
	return auth.Token, nil
}
