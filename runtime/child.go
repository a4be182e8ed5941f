package runtime

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// body is where the other end of a conversation lives: a process, or a server
// elsewhere, whose end is the end of the connection.
type body interface {
	PID() int                                            // 0 without a process
	Exited() <-chan struct{}                             // closed when it has ended, before all it left is gone
	Dying() bool                                         // it is seen to end, and has not ended yet
	Done() <-chan struct{}                               // closed when it is gone
	Stop(ctx context.Context, grace time.Duration) error // in good order, then by force
	Kill()                                               // at once; does not wait
	Tail() []string                                      // the last it said on stderr
	evidence() *protocol.Evidence                        // what it left behind
	exit() string                                        // how it ended, once it is gone
}

// child is one other end, the connection to it and what became of both.
type child struct {
	spec      *Spec
	dialect   dialect
	traits    traits
	body      body
	wire      jsonrpc.Transport
	conn      *jsonrpc.Conn
	noise     *noise
	slot      *slot // of a child that takes one call at a time
	startedAt time.Time
	tokens    tokenMint
	watches   watches
	handshake atomic.Pointer[Handshake] // nil until the child can be called
	hooks     []string                  // as offered

	fatal   chan *protocol.Error // holds the first reason to end the child
	changed chan struct{}        // holds a token when the tools are to be listed again
	hung    chan struct{}        // holds a token when a call timed out
	tasks   sync.WaitGroup

	served chan struct{} // closed when the connection is over
	broken error         // why; written before served is closed

	stopping atomic.Bool
	ended    chan struct{}   // closed when the run is over
	cause    *protocol.Error // why; written before ended is closed
}

// newChild returns a child that is to be connected.
func newChild(s *Spec, d dialect, b body) *child {
	c := &child{
		spec: s, dialect: d, traits: d.traits(), body: b, noise: newNoise(s.Logger),
		slot: newSlot(), startedAt: time.Now(),
		fatal: make(chan *protocol.Error, 1), changed: make(chan struct{}, 1), hung: make(chan struct{}, 1),
		served: make(chan struct{}), ended: make(chan struct{}),
	}
	c.tokens.init()
	return c
}

// connect puts the conversation on a wire. Nothing is read from it before run.
func (c *child) connect(wire jsonrpc.Transport) {
	o := jsonrpc.Options{
		Handle: c.handle, Notified: c.notified, Token: tokenOf, Loose: loose, Abandoned: c.abandoned,
		FirstID: 1, Bare: c.traits.bare,
	}
	if c.traits.zeroID {
		o.FirstID = 0
	}
	c.wire, c.conn = wire, jsonrpc.NewConn(wire, o)
}

// run serves the child to its end and returns why it ended, nil when ctx did it.
func (c *child) run(ctx context.Context, ready func()) *protocol.Error {
	c.tasks.Go(func() {
		c.broken = c.conn.Serve(context.WithoutCancel(ctx))
		close(c.served)
	})
	inner, cancel := context.WithCancel(ctx)
	cause := c.watch(inner, ready)
	if cause == nil {
		c.stopping.Store(true)
		c.stop(ctx)
	}
	c.bury()
	c.cause = c.obituary(cause)
	close(c.ended) // before the wait: a task may be waiting for it
	cancel()
	c.slot.close()
	c.tasks.Wait()
	if cause == nil {
		return nil
	}
	return c.epitaph()
}

// watch waits for whatever ends the run first: nil is the end of ctx.
func (c *child) watch(ctx context.Context, ready func()) *protocol.Error {
	shaken := make(chan error, 1)
	c.tasks.Go(func() {
		err := c.greet(ctx)
		shaken <- err
		if p, ok := c.body.(local); ok && err == nil {
			p.FollowNice(ctx)
		}
	})
	var relisted chan struct{} // not nil while a listing runs
	for {
		var changed chan struct{}
		if relisted == nil && c.handshake.Load() != nil {
			changed = c.changed
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.body.Done():
			return c.exited()
		case <-c.served:
			return c.disconnected()
		case fault := <-c.fatal:
			return fault
		case err := <-shaken:
			if broke(err) || ctx.Err() != nil {
				continue // what ended the connection says it better
			}
			if err != nil {
				return c.unshaken(err)
			}
			c.tasks.Go(func() { c.follow(ctx) })
			c.tasks.Go(func() { c.watchHealth(ctx) })
			ready()
		case <-changed:
			done := make(chan struct{})
			relisted = done
			c.tasks.Go(func() { defer close(done); c.relist(ctx); pause(ctx, relistPause) })
		case <-relisted:
			relisted = nil
		}
	}
}

// broke reports whether err, of a handshake, is one of the pipes: their end is
// near, and with it the end of the run.
func broke(err error) bool {
	var fault *protocol.Error
	return err != nil && !errors.As(err, &fault) && !errors.Is(err, context.DeadlineExceeded)
}

// greet conducts the handshake within start_timeout.
func (c *child) greet(ctx context.Context) error {
	if d := c.spec.Options.StartTimeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	h, o, err := c.dialect.handshake(ctx, c.conn)
	if err != nil {
		return err
	}
	c.hooks = o.hooks
	c.noise.settled.Store(true)
	c.offer(h, o)
	return nil
}

// offer makes h, with what is accepted of o, the handshake in force.
func (c *child) offer(h *Handshake, o offer) {
	o.execs = c.spec.Manifest.Hooks
	r := reviewOffer(c.spec.ID, o, c.spec.Manifest.Capabilities)
	h.Tools, h.Hooks, h.Diagnostics = r.tools, r.hooks, r.diagnostics
	if o, ok := c.body.(interface{ offered([]protocol.Tool) }); ok {
		o.offered(h.Tools)
	}
	c.handshake.Store(h)
}

// followPause is how long after it was lost a subscription is asked for again.
const followPause = 2 * time.Second

// follow keeps the subscription to changed tools, where there is one. What was
// missed while it was lost is made good by another listing.
func (c *child) follow(ctx context.Context) {
	for c.dialect.follow(ctx, c.conn) {
		pause(ctx, followPause)
		if ctx.Err() != nil {
			return
		}
		signal(c.changed)
	}
}

// relistPause bounds how often a child that keeps announcing changes is asked.
const relistPause = 250 * time.Millisecond

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// relist asks for the tools again after the child said that they changed.
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
	c.offer(&h, offer{tools: tools, hooks: c.hooks})
	if c.spec.ToolsChanged != nil {
		c.spec.ToolsChanged()
	}
}
