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
	"time"

	"github.com/exthost/exthost"
)

// ports are the listeners of destinations, each on an address of its own on this
// machine, where /mcp, /sse and /message are the destination's.
type ports struct {
	server *Server
	open   map[string]*port
}

// port is one such listener.
type port struct {
	asked  int
	url    string
	http   *http.Server
	cancel context.CancelFunc // of the requests that came by it
	served chan struct{}      // closed when it no longer accepts
}

// run keeps a listener open for each destination that has a port until ctx ends, and
// with them waits for their requests, whose contexts come of requests.
func (p *ports) run(ctx, requests context.Context) {
	for list := range p.server.options.Bridge.Destinations(ctx) {
		wanted := make(map[string]exthost.Destination, len(list))
		for _, d := range list {
			if d.Local {
				wanted[d.Name] = d
			}
		}
		p.close(lastWords, func(name string, open *port) bool {
			d, ok := wanted[name]
			return !ok || d.Port != open.asked
		})
		for name, d := range wanted {
			if open := p.open[name]; open != nil {
				p.server.options.Bridge.Listens(name, open.url) // which a new build does not know
			} else {
				p.listen(ctx, requests, d)
			}
		}
	}
	p.close(p.server.options.ShutdownTimeout, func(string, *port) bool { return true })
}

// close closes the ports that are which, whose requests may still run that long, and
// waits for them together.
func (p *ports) close(patience time.Duration, which func(name string, open *port) bool) {
	var closing sync.WaitGroup
	for name, open := range p.open {
		if !which(name, open) {
			continue
		}
		delete(p.open, name)
		p.server.options.Bridge.Listens(name, "")
		closing.Go(func() {
			p.server.shutdown(open.http, patience, open.cancel)
			open.cancel()
			<-open.served
		})
	}
	closing.Wait()
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
	scheme := "http://"
	if p.server.options.CertFile != "" {
		scheme = "https://"
	}
	requests, cancel := context.WithCancel(requests)
	open := &port{asked: d.Port, url: scheme + address, http: p.server.newHTTP(requests, guard), cancel: cancel, served: make(chan struct{})}
	p.open[d.Name] = open
	go func() {
		defer close(open.served)
		if err := p.server.accept(open.http, l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the port of the destination is closed", "listens", address, "error", err)
		}
	}()
	p.server.options.Bridge.Listens(d.Name, open.url)
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
