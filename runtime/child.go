package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// endpoint is the other end of a connection: a process or a remote server. A remote server counts as ended when the
// connection to it has ended.
type endpoint interface {
	PID() int // 0 for a remote server
	// closed when the process has exited, possibly before its descendants
	Exited() <-chan struct{}
	Dying() bool                                         // reports whether the process is exiting
	Done() <-chan struct{}                               // closed when all processes have ended
	Stop(ctx context.Context, grace time.Duration) error // stops gracefully, then by force
	Kill()                                               // kills without waiting
	Tail() []string                                      // last lines of stderr
	evidence(ready bool) *protocol.Evidence              // evidence about the end; incomplete before Done
	exit() string                                        // describes the end; valid after Done
}

// child is one run: an endpoint, the connection to it, and the outcome.
type child struct {
	spec      *Spec
	dialect   dialect
	traits    traits
	endpoint  endpoint
	wire      jsonrpc.Transport
	conn      *jsonrpc.Conn
	noise     *noiseFilter
	strays    strays
	slot      *slot     // if traits.oneCall is set
	startLog  *startLog // nil for a remote server
	startedAt time.Time
	tokens    tokenSource
	watches   resourceWatches
	handshake atomic.Pointer[Handshake] // nil until the handshake is done
	hooks     []string                  // names of hooks, from the handshake
	roots     json.RawMessage           // the answer to roots/list; nil: the callers are asked
	killed    *atomic.Bool              // Kill was called on the run

	// endedAtDiscover tells that the process ended because server/discover was its first request, as far as can be
	// told. Set before run returns.
	endedAtDiscover bool

	endReason    chan *protocol.Error // holds the first reason for ending the run
	toolsChanged chan struct{}        // holds a token if the tools must be listed again
	health       health
	tasks        concurrent.Gate

	connDone chan struct{} // closed when the connection has ended
	connErr  error         // why the connection ended; set before connDone is closed

	stopping atomic.Bool
	done     chan struct{}   // closed when the run has ended
	cause    *protocol.Error // why the run ended; set before done is closed
}

// newChild returns a child that is not connected yet.
func newChild(s *Spec, d dialect, b endpoint) *child {
	c := &child{
		spec:         s,
		dialect:      d,
		traits:       d.traits(),
		endpoint:     b,
		noise:        &noiseFilter{log: s.Logger, limit: rate.NewLimiter(1, 10)},
		slot:         &slot{token: make(chan struct{}, 1), noiseSeen: make(chan struct{}, 1)},
		startedAt:    time.Now(),
		endReason:    make(chan *protocol.Error, 1),
		toolsChanged: make(chan struct{}, 1),
		connDone:     make(chan struct{}),
		done:         make(chan struct{}),
		strays:       strays{limit: rate.NewLimiter(1, 10)},
	}
	c.tokens.init()
	c.roots = RootsResult(s.Roots)
	return c
}

// connect sets the transport. Nothing is read before run.
func (c *child) connect(wire jsonrpc.Transport) {
	o := jsonrpc.Options{
		Handle:    c.handle,
		Notified:  c.notified,
		Abandoned: c.abandoned,
		Token: func(m *jsonrpc.Message) string {
			if c.answersRoots(m) {
				return ""
			}
			return tokenOf(m)
		},
		Loose:   func(m *jsonrpc.Message) bool { return !c.answersRoots(m) && loose(m) },
		Cancels: cancels,
		Stray:   c.stray,
		Held:    c.spec.Held,
		FirstID: 1,
		Bare:    c.traits.bare,
	}
	switch {
	case c.traits.zeroID:
		o.FirstID = 0
	case c.traits.randomID:
		o.FirstID = rand.Uint64N(1 << 52) // 52 bits, so that later ids are exact in JavaScript too
	}
	c.wire, c.conn = wire, jsonrpc.NewConn(wire, o)
}

// run serves the child until it ends and returns the reason; nil if ctx ended.
func (c *child) run(ctx context.Context, ready func()) *protocol.Error {
	c.spec.Record.Start(cassette.Start{
		Transport: c.spec.Manifest.Transport.Kind,
		Protocol:  cmp.Or(c.spec.Manifest.Transport.Protocol, manifest.ProtocolNative),
		PID:       c.endpoint.PID(),
	})
	c.tasks.Go(func() {
		c.connErr = c.conn.Serve(context.WithoutCancel(ctx))
		close(c.connDone)
	})
	inner, cancel := context.WithCancel(ctx)
	return c.finish(ctx, cancel, c.watch(inner, ready))
}

// finish ends the run because of cause, nil if ctx has ended, and returns the final error.
func (c *child) finish(ctx context.Context, cancel context.CancelFunc, cause *protocol.Error) *protocol.Error {
	if cause == nil {
		c.stopping.Store(true)
		c.stop(ctx)
	}
	c.endedAtDiscover = ctx.Err() == nil && c.endsAtDiscover(cause)
	switch {
	case c.endedAtDiscover:
		// Its lines stay held, because reap may bring more.
		c.spec.Logger.Debug("it ended at server/discover and is started again, with initialize first", "reason",
			cause.Message)
	case cause != nil && c.handshake.Load() == nil:
		c.startLog.release(slog.LevelError)
	}
	c.reap()
	c.startLog.release(slog.LevelDebug)
	c.cause = c.finalError(ctx, cause)
	c.recordEnd(cause == nil)
	close(c.done) // first: tasks wait for it
	cancel()
	<-c.tasks.Close()
	if cause == nil {
		return nil
	}
	return c.copyError()
}

// endsAtDiscover reports whether cause is the end of a process that got server/discover as its first request and was
// answered no handshake. Some MCP servers end at a first request that they do not know.
func (c *child) endsAtDiscover(cause *protocol.Error) bool {
	d, ok := c.dialect.(*mcp)
	if _, process := c.endpoint.(local); !ok || !process || cause == nil || c.killed.Load() || !d.discovering.Load() {
		return false
	}
	brokenPipe := cause.Kind == protocol.WriteStalled && !errors.Is(c.connErr, ndjson.ErrStalled)
	return cause.Kind == protocol.ChildExited || cause.Kind == protocol.StdoutClosed || brokenPipe
}

// watch waits until something ends the run and returns the reason; nil if ctx ended.
func (c *child) watch(ctx context.Context, ready func()) *protocol.Error {
	handshakeDone := make(chan error, 1)
	c.tasks.Go(func() {
		err := c.doHandshake(ctx)
		handshakeDone <- err
		if p, ok := c.endpoint.(local); ok && err == nil {
			p.FollowNice(ctx)
		}
	})
	var relistDone chan struct{} // not nil while the tools are being listed
	var broken error             // handshake error that the end of the connection will probably explain better
	var noEnd <-chan time.Time   // fires if the connection has not ended soon after broken was set
	for {
		var changed chan struct{}
		if relistDone == nil && c.handshake.Load() != nil {
			changed = c.toolsChanged
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.endpoint.Done():
			return c.exited()
		case <-c.connDone:
			return c.disconnected()
		case fault := <-c.endReason:
			return fault
		case err := <-handshakeDone:
			if isConnError(err) || ctx.Err() != nil {
				broken, noEnd = err, time.After(stopTimeout)
				continue
			}
			if err != nil {
				return c.handshakeError(err)
			}
			c.startTasks(ctx)
			ready()
		case <-noEnd:
			return c.handshakeError(broken)
		case <-changed:
			done := make(chan struct{})
			relistDone = done
			c.tasks.Go(func() { defer close(done); c.relist(ctx); pause(ctx, relistPause) })
		case <-relistDone:
			relistDone = nil
		}
	}
}

// startTasks starts the tasks that run from the handshake on.
func (c *child) startTasks(ctx context.Context) {
	c.tasks.Go(func() { c.followChanges(ctx) })
	if c.spec.Options.HealthInterval > 0 {
		c.tasks.Go(func() { c.watchHealth(ctx) })
	}
}

// isConnError reports whether a handshake failed with err because the connection failed or ctx was canceled. Usually
// the connection then ends soon, and with it the run.
func isConnError(err error) bool {
	var fault *protocol.Error
	return err != nil && !errors.As(err, &fault) && !errors.Is(err, context.DeadlineExceeded)
}

// doHandshake performs the handshake within StartTimeout.
func (c *child) doHandshake(ctx context.Context) error {
	if d := c.spec.Options.StartTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	waiting, answered := context.WithCancel(ctx)
	c.tasks.Go(func() { c.announceWait(waiting) })
	h, o, err := c.dialect.handshake(ctx, c.conn)
	answered()
	if err != nil {
		return err
	}
	c.startLog.release(slog.LevelDebug)
	c.hooks = o.hooks
	c.noise.handshakeDone.Store(true)
	c.publish(h, o)
	return nil
}

// publish makes h the current handshake, with the accepted part of o.
func (c *child) publish(h *Handshake, o descriptors) {
	o.execs = c.spec.Manifest.Hooks
	o.tools = retold(o.tools, c.spec.Manifest.ToolTexts)
	r := reviewDescriptors(c.spec.ID, o, c.spec.Manifest.Capabilities)
	r.untold(c.spec.Manifest.ToolTexts)
	h.Tools, h.Hooks, h.Undeclared, h.Diagnostics = r.tools, r.hooks, r.dropped, r.diagnostics
	if o, ok := c.endpoint.(interface{ setTools([]protocol.Tool) }); ok {
		o.setTools(h.Tools)
	}
	c.handshake.Store(h)
	c.recordHandshake(h)
}

// resubscribePause is the pause before a lost subscription is renewed.
const resubscribePause = 2 * time.Second

// followChanges maintains the subscription to tool changes, if the dialect has one. After a lost subscription the tools
// are listed again, as changes may have been missed.
func (c *child) followChanges(ctx context.Context) {
	for c.dialect.followChanges(ctx, c.conn) {
		pause(ctx, resubscribePause)
		if ctx.Err() != nil {
			return
		}
		signal(c.toolsChanged)
	}
}

// relistPause is the minimum time between two listings of tools.
const relistPause = 250 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// relist lists the tools again after the child has announced a change.
func (c *child) relist(ctx context.Context) {
	if d := c.spec.Options.StartTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	tools, err := c.dialect.relist(ctx, c.conn)
	if err != nil {
		if ctx.Err() == nil {
			c.spec.Logger.Warn("changed tools could not be listed; the old ones stay", "error", err)
		}
		return
	}
	h := *c.handshake.Load()
	c.publish(&h, descriptors{tools: tools, hooks: c.hooks})
	if c.spec.ToolsChanged != nil {
		c.spec.ToolsChanged()
	}
}
