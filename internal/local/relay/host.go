package relay

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/secret/clienttoken"
)

// HostOptions configure a Host.
type HostOptions struct {
	Build, Version string   // of this program
	Flags          Flags    // flags of this host
	Environ        []string // environment of this host, NAME=value
	Log            *slog.Logger

	// Variables returns the variables that extensions and configuration currently depend on. A client whose
	// values differ is refused.
	Variables func() []string
	// Serve serves a client until the client leaves or ctx ends, and closes in and out. caller is the client's name
	// for policies; toolset and mode are what the client requested.
	Serve func(ctx context.Context, in io.ReadCloser, out io.WriteCloser, caller, toolset, mode string)
	// Named returns a context that ends when the client name becomes invalid, or why the name is refused.
	Named func(name string) (until context.Context, f *Fault)
	// Toolset returns the toolset for a client: name is "" for an unnamed one, asked "" for no request. nil:
	// every request is granted.
	Toolset func(name, asked string) (toolset string, f *Fault)
	// Strict waits until all extensions have started or failed, and returns why a strict client is refused, or
	// nil.
	Strict func(ctx context.Context) *Fault
	// Stop shuts the host down on request. It must not block.
	Stop func()
	// Background is set for a host that serves only relayed clients. Run then returns after IdleExit without
	// clients (0: never), when the last client leaves and a newer program is in use, or when the host refuses the
	// client that started it.
	Background bool
	IdleExit   time.Duration
}

// Host accepts the clients of relays.
type Host struct {
	HostOptions
	env     variables
	changed chan struct{} // signals a change of open or retired

	mu      sync.Mutex
	open    map[*client]struct{}
	served  bool   // the host has had a client
	retired bool   // the host exits with its last client
	refused string // last refused client and reason, to log it once
}

// NewHost returns a host; call Run.
func NewHost(o HostOptions) *Host {
	return &Host{
		HostOptions: o,
		env:         parseEnviron(o.Environ),
		open:        make(map[*client]struct{}),
		changed:     make(chan struct{}, 1),
	}
}

type client struct {
	env    map[string]string // digests
	nonce  string
	cancel context.CancelFunc
	until  context.Context // ends when the client's name becomes invalid; nil without a name
}

// firstClient is the least time that a background host waits for its first client, regardless of IdleExit,
// because the relay that started it connects afterwards.
const firstClient = 30 * time.Second

const maxClients = 1024

// Run accepts clients from l until ctx ends or the host is no longer needed, and returns when all clients have
// left. It closes l.
func (h *Host) Run(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		h.idle(ctx)
		cancel()
	})
	for refused := false; ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			refused = false
			running.Go(func() { h.take(ctx, conn) })
		case ctx.Err() != nil:
			return
		default:
			if !refused { // the next attempts fail for the same reason
				h.Log.Warn("a client could not be accepted", "error", err)
			}
			refused = true
			if !pause(ctx) { // for instance because of too many open files
				return
			}
		}
	}
}

// pause waits 100 ms; it returns false if ctx ends.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(100 * time.Millisecond):
		return true
	case <-ctx.Done():
		return false
	}
}

// idle returns after IdleExit without clients, when a retired host has no clients, or when ctx ends.
func (h *Host) idle(ctx context.Context) {
	timer := time.NewTimer(0)
	<-timer.C
	for {
		empty, retired, wait := h.waiting()
		switch {
		case empty && retired:
			h.Log.Info("the last client has left, and others get another host")
			return
		case empty && h.Background && h.IdleExit > 0:
			timer.Reset(wait)
		default:
			timer.Stop()
		}
		select {
		case <-timer.C:
			if h.expire() {
				h.Log.Info("there were no clients", "for", wait.String())
				return
			}
		case <-h.changed:
		case <-ctx.Done():
			return
		}
	}
}

// waiting returns whether there are no clients, whether the host exits with the last one, and how long to wait
// for the next one.
func (h *Host) waiting() (empty, retired bool, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait = h.IdleExit
	if !h.served {
		wait = max(wait, firstClient)
	}
	return len(h.open) == 0, h.retired, wait
}

// expire retires the host if it still has no client. When the timeout coincides with a new client, either the
// host stays, or it refuses the client before its first request, and the client's relay starts another host.
func (h *Host) expire() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.open) > 0 {
		return false
	}
	h.retired = true
	return true
}

// take serves one connection.
func (h *Host) take(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	c, q, err := h.welcome(ctx, cancel, conn)
	if errors.Is(err, errStopped) {
		return // leaves the connection open
	}
	defer h.remove(c)
	defer conn.Close()
	var in io.ReadCloser
	var out io.WriteCloser
	if c != nil {
		in, out, err = takePipes(conn, helloTimeout)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		h.Log.Warn("a relay does not keep to its protocol", "error", err)
	case in != nil && stop():
		if c.until != nil {
			defer context.AfterFunc(c.until, cancel)()
		}
		h.Serve(ctx, in, out, cmp.Or(q.As, q.Caller), q.Toolset, q.Tools)
	case in != nil:
		_, _ = in.Close(), out.Close()
	}
}

// errStopped ends a handshake with exthost stop.
var errStopped = errors.New("the host is stopped")

// untilExit holds the connections of exthost stop open: that command waits until the exit of this process closes them.
var untilExit sync.Map

// welcome performs the handshake. It returns a nil client if the connection is refused or is for another request.
func (h *Host) welcome(ctx context.Context, cancel context.CancelFunc, conn net.Conn) (*client, *request, error) {
	hello := greeting{wireVersion, h.Build, h.Version, os.Getpid(), rand.Text(), daemon.Refusal(conn)}
	if err := send(conn, hello); err != nil || hello.Refused != "" {
		return nil, nil, nil // the other side only probed for a running host, or is refused
	}
	var q request
	if err := receive(conn, helloTimeout, &q); err != nil {
		return nil, nil, nil
	}
	switch q.Verb {
	case verbAttach:
	case verbRetire:
		h.retire()
		return nil, nil, nil
	case verbStop:
		untilExit.Store(conn, struct{}{})
		h.Log.Info("exthost stop")
		h.Stop()
		return nil, nil, errStopped
	default:
		return nil, nil, fmt.Errorf("it asks for %q", q.Verb)
	}
	if !strings.HasPrefix(q.Caller, clienttoken.Stdio) || len(q.Caller) > maxCaller {
		return nil, nil, errors.New("it does not name its client")
	}
	c := &client{env: q.Env, nonce: hello.Nonce, cancel: cancel}
	a := h.admit(ctx, &q, c)
	if err := send(conn, a); err != nil || !a.OK {
		if a.Fault != nil && q.Started {
			h.retire()
		}
		h.remove(c)
		return nil, nil, nil
	}
	return c, &q, nil
}

// admit decides about a client, and adds it if accepted.
func (h *Host) admit(ctx context.Context, q *request, c *client) answer {
	if flag := q.Flags.differ(h.Flags); flag != "" {
		return h.refuse(q, "the client's "+flag+" differs")
	}
	if names := h.env.differ(q.Env, c.nonce, h.Variables()); names != nil {
		return h.refuse(q, "the client has other values of "+listed(names))
	}
	if q.As != "" {
		var f *Fault
		if c.until, f = h.Named(q.As); f != nil {
			return answer{Fault: f}
		}
	}
	if h.Toolset != nil {
		var f *Fault
		if q.Toolset, f = h.Toolset(q.As, q.Toolset); f != nil {
			return answer{Fault: f}
		}
	}
	h.mu.Lock()
	switch {
	case h.retired:
		h.mu.Unlock()
		return answer{Refused: "it ends with its last client"}
	case len(h.open) >= maxClients:
		h.mu.Unlock()
		return answer{Refused: fmt.Sprintf("it has %d clients", maxClients)}
	}
	h.open[c], h.served = struct{}{}, true
	h.mu.Unlock()
	h.signal()
	if q.Strict {
		if f := h.Strict(ctx); f != nil {
			return answer{Fault: f}
		}
	}
	return answer{OK: true}
}

// refuse refuses a client, and logs it once, because a relay asks twice before it starts another host.
func (h *Host) refuse(q *request, reason string) answer {
	h.mu.Lock()
	again := h.refused == q.Caller+reason
	h.refused = q.Caller + reason
	h.mu.Unlock()
	if !again {
		h.Log.Info("a client on stdio gets another host", "client", q.Caller, "because", reason)
	}
	return answer{Refused: reason}
}

// maxListed limits the variable names in a message.
const maxListed = 10

func listed(names []string) string {
	text := strings.Join(names[:min(len(names), maxListed)], ", ")
	if more := len(names) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (h *Host) remove(c *client) {
	if c == nil {
		return
	}
	h.mu.Lock()
	delete(h.open, c)
	h.mu.Unlock()
	h.signal()
}

func (h *Host) retire() {
	h.mu.Lock()
	h.retired = h.Background
	h.mu.Unlock()
	h.signal()
}

func (h *Host) signal() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Recheck disconnects the clients that have other values of variables on which extensions now depend. The relays of
// these clients find another host.
func (h *Host) Recheck() {
	names := h.Variables()
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.open {
		if others := h.env.differ(c.env, c.nonce, names); others != nil {
			h.Log.Info("a client gets another host, because variables that matter now differ", "variables",
				listed(others))
			c.cancel()
		}
	}
}
