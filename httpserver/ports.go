package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/exthost/exthost"
)

// ports are the listeners of destinations, each on an address of its own on this
// machine, where /mcp, /sse and /message are the destination's.
type ports struct {
	server *Server

	mu      sync.Mutex
	headers map[string]map[string]string // by destination: see exthost.Destination
	open    map[string]*port             // touched by run alone
}

// port is one such listener.
type port struct {
	asked   int
	address string
	http    *http.Server
	served  chan struct{} // closed when it no longer accepts
}

func newPorts(s *Server) *ports {
	return &ports{server: s, headers: make(map[string]map[string]string), open: make(map[string]*port)}
}

// run keeps a listener open for each destination that has a port until ctx ends.
// Requests in flight are the caller's to end, by the context that they are given.
func (p *ports) run(ctx, requests context.Context) {
	for list := range p.server.options.Bridge.Destinations(ctx) {
		headers := make(map[string]map[string]string, len(list))
		wanted := make(map[string]exthost.Destination, len(list))
		for _, d := range list {
			headers[d.Name] = d.Headers
			if d.Local {
				wanted[d.Name] = d
			}
		}
		p.mu.Lock()
		p.headers = headers
		p.mu.Unlock()
		for name, open := range p.open {
			if d, ok := wanted[name]; !ok || d.Port != open.asked {
				p.close(name, open)
			}
		}
		for _, d := range list {
			if open := p.open[d.Name]; open != nil {
				p.server.options.Bridge.Listens(d.Name, open.address) // which a new build does not know
			} else if d.Local {
				p.listen(ctx, requests, d)
			}
		}
	}
	for name, open := range p.open {
		p.close(name, open)
	}
}

// maxPortTries is how many ports after a taken one are tried.
const maxPortTries = 100

// listen opens the port of a destination, or the next one that is free.
func (p *ports) listen(ctx, requests context.Context, d exthost.Destination) {
	log := p.server.options.Logger.With("extension", d.Name)
	l, err := listenFrom(ctx, d.Port)
	if err != nil {
		log.Error("no port for the destination, which is served at /"+d.Name+"/ alone", "port", d.Port, "error", err)
		return
	}
	address := l.Addr().String()
	if _, got, _ := net.SplitHostPort(address); d.Port != 0 && got != strconv.Itoa(d.Port) {
		log.Warn("the port of the destination is taken, and the next free one is used", "port", d.Port, "listens", address)
	}
	guard, err := p.server.newGuard(address, true, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.server.serveOne(w, r, d.Name, strings.TrimPrefix(r.URL.Path, "/"))
	}))
	if err != nil { // of allowed_origins, which the server's own guard has refused before
		log.Error("no port for the destination", "error", err)
		_ = l.Close()
		return
	}
	open := &port{asked: d.Port, address: address, http: p.server.newHTTP(requests, guard), served: make(chan struct{})}
	p.open[d.Name] = open
	go func() {
		defer close(open.served)
		if err := p.server.accept(open.http, l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the port of the destination is closed", "listens", address, "error", err)
		}
	}()
	p.server.options.Bridge.Listens(d.Name, "http"+map[bool]string{true: "s"}[p.server.options.CertFile != ""]+"://"+address)
	log.LogAttrs(ctx, slog.LevelDebug, "the destination listens", slog.String("at", address))
}

// listenFrom listens on 127.0.0.1, on the given port or one of the next that is free.
func listenFrom(ctx context.Context, port int) (net.Listener, error) {
	var lc net.ListenConfig
	for try := 0; ; try++ {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+try)))
		if err == nil || port == 0 || try == maxPortTries || port+try == 65535 || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
}

func (p *ports) close(name string, open *port) {
	delete(p.open, name)
	p.server.options.Bridge.Listens(name, "")
	if shutdownWithin(open.http, lastWords) != nil {
		_ = open.http.Close()
	}
	<-open.served
}
