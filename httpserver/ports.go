package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/exthost/exthost/config"
)

// ports are the loopback listeners of destinations. Each serves /mcp, /sse and /message of its destination.
type ports struct {
	server *Server
	open   map[string]*port // by destination
}

// port is the listener of one destination.
type port struct {
	requested int // the configured port; the actual one may differ
	url       string
	http      *http.Server
	cancel    context.CancelFunc // cancels the requests
	done      chan struct{}      // closed when the listener accepts no more connections
}

// run keeps a listener open for each destination with a port until ctx ends. Then it closes the listeners and waits
// for their requests, which have the context requests.
func (p *ports) run(ctx, requests context.Context) {
	for wanted := range p.server.options.Bridge.Destinations(ctx) {
		maps.DeleteFunc(wanted, func(_ string, d config.Destination) bool { return d.Type != config.DestinationStdio })
		p.close(cancelGrace, func(name string, open *port) bool {
			d, ok := wanted[name]
			return !ok || d.Port != open.requested
		})
		for name, d := range wanted {
			if open := p.open[name]; open != nil {
				p.server.options.Bridge.Listens(name, open.url) // a new snapshot lacks the URL
			} else {
				p.listen(ctx, requests, name, d.Port)
			}
		}
	}
	p.close(p.server.options.ShutdownTimeout, func(string, *port) bool { return true })
}

// close closes the ports for which match returns true. It waits for their requests, and cancels them after timeout.
func (p *ports) close(timeout time.Duration, match func(name string, open *port) bool) {
	var closing sync.WaitGroup
	for name, open := range p.open {
		if !match(name, open) {
			continue
		}
		delete(p.open, name)
		p.server.options.Bridge.Listens(name, "")
		closing.Go(func() {
			p.server.shutdown(open.http, timeout, open.cancel)
			open.cancel()
			<-open.done
		})
	}
	closing.Wait()
}

// maxPortTries is how many further ports are tried if one is taken.
const maxPortTries = 100

// listen opens the port of a destination, or the next free one.
func (p *ports) listen(ctx, requests context.Context, name string, wanted int) {
	log := p.server.options.Logger.With("extension", name)
	l, err := listenFrom(ctx, wanted)
	if err != nil {
		log.Error("no port for the destination, which is served at /"+name+"/ alone", "port", wanted, "error", err)
		return
	}
	address := l.Addr().String()
	if _, got, _ := net.SplitHostPort(address); wanted != 0 && got != strconv.Itoa(wanted) {
		log.Warn("the port of the destination is taken, and the next free one is used", "port", wanted, "listens",
			address)
	}
	guard, err := p.server.newGuard(address, false,
		p.server.confined(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !p.server.toolsets.servesExtension(r, name) {
				http.NotFound(w, r)
				return
			}
			p.server.serveExtension(w, r, name, strings.TrimPrefix(r.URL.Path, "/"))
		})))
	if err != nil { // an invalid allowed origin, which Serve would have refused
		log.Error("no port for the destination", "error", err)
		_ = l.Close()
		return
	}
	scheme := "http://"
	if p.server.options.TLS.Cert != "" {
		scheme = "https://"
	}
	requests, cancel := context.WithCancel(requests)
	open := &port{
		requested: wanted,
		url:       scheme + address,
		http:      p.server.newHTTP(requests, guard),
		cancel:    cancel,
		done:      make(chan struct{}),
	}
	p.open[name] = open
	go func() {
		defer close(open.done)
		if err := p.server.accept(open.http, l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the port of the destination is closed", "listens", address, "error", err)
		}
	}()
	p.server.options.Bridge.Listens(name, open.url)
	log.LogAttrs(ctx, slog.LevelDebug, "the destination listens", slog.String("at", address))
}

// listenFrom listens on 127.0.0.1 on the given port, or on the next free one.
func listenFrom(ctx context.Context, port int) (net.Listener, error) {
	var lc net.ListenConfig
	for try := 0; ; try++ {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+try)))
		if err == nil || port == 0 || try == maxPortTries || port+try == 65535 || !errors.Is(err, syscall.EADDRINUSE) {
			return l, err
		}
	}
}
