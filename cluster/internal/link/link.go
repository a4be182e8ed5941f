// Package link connects one run of a node to the NATS servers of its cluster. It sends and receives messages,
// and reports which messages were certainly not sent.
package link

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent"
)

// ErrUnsent is returned for messages that were not sent and never will be. After any other error a message
// may have been sent.
var ErrUnsent = errors.New("not sent")

// ErrRefused is returned by [Connect] for errors that waiting does not fix: a server rejects the credentials, or its
// certificate is not trusted.
var ErrRefused = errors.New("refused")

// Options configures a link.
type Options struct {
	natsclient.Access
	Subjects wire.Subjects
	Self     wire.Address
	Log      *slog.Logger // nil: discard

	// Received handles each message, except for the reports that go to NotTaken. It is called on one goroutine per Way,
	// with the messages of one sender in the order in which they were sent. It must not block, because all further
	// messages of the same Way wait for it.
	Received func(Message)
	// NotTaken is called with the notTaken token of a [Link.Send] whose message no run received, on the same goroutine
	// as Received for ToRun.
	NotTaken func(what string)
	// State reports each change of the connection, with the reason if it is down. It may be nil, and must not
	// block.
	State func(connected bool, reason string)
}

// Message is a message of another node.
type Message struct {
	From string // the sending node, taken from the subject
	Way  Way
	Data []byte // may be retained
}

// Way is how a message was addressed.
type Way int

// The values of Way.
const (
	ToRun  Way = iota // to this run
	ToName            // to the run that holds the name of this node, see [Link.Hold]
	ToAll             // to all nodes
	ToAny             // to one node, chosen by the server
)

// Link is a connection that is re-established whenever it breaks. Its methods may be called concurrently.
type Link struct {
	o     Options
	conn  atomic.Pointer[connection]
	first chan error      // error of the first attempt
	tasks concurrent.Gate // message handlers, and reconnects
	dials context.Context
	cut   context.CancelFunc // ends dials and all connections

	making sync.Mutex // held while subscriptions are made
	held   bool       // guarded by making

	mu     sync.Mutex // guards what follows
	closed bool
	said   map[string]bool // refusals that were logged
}

// connection is one connection of the NATS client. The client reconnects by itself until a server reports an
// error that is unknown to the client. Then it closes the connection for good, and the link opens another
// one.
type connection struct {
	*nats.Conn
	ready chan struct{} // closed once the subscriptions are made
	over  chan struct{} // closed when the last callback has returned
}

const (
	flushBound = 2 * time.Second
	againPause = time.Second // before another connection is opened
	maxSaid    = 64          // refusals that are logged, at most

	maxPending      = 1 << 16   // pending messages per subscription
	maxPendingBytes = 128 << 20 // pending bytes per subscription
)

// Connect opens a link. It is no error if no server can be reached: the link keeps trying. Connect waits for the
// outcome of the first attempt, which takes at most 2 s per server, or until ctx ends. It returns [ErrRefused] if
// waiting cannot help.
func Connect(ctx context.Context, o Options) (*Link, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.State == nil {
		o.State = func(bool, string) {}
	}
	l := &Link{o: o, first: make(chan error, 1), said: make(map[string]bool)}
	l.dials, l.cut = context.WithCancel(context.Background())
	err := l.open()
	if err != nil {
		l.cut()
		return nil, l.describe(err)
	}
	c := l.conn.Load()
	if c.IsConnected() {
		return l, nil
	}
	select {
	case err = <-l.first:
	case <-c.over:
		err = c.LastError()
	case <-ctx.Done():
	}
	if err = l.describe(err); errors.Is(err, ErrRefused) {
		_ = l.Close(ctx)
		return nil, err
	}
	return l, nil
}

// open opens a connection and subscribes. After an error it closes the connection and waits for its last callback.
func (l *Link) open() error {
	c := &connection{ready: make(chan struct{}), over: make(chan struct{})}
	err := l.take(c)
	close(c.ready)
	if err != nil && c.Conn != nil {
		c.Close()
		<-c.over
	}
	return err
}

// take connects and makes c the current connection.
func (l *Link) take(c *connection) (err error) {
	l.making.Lock()
	defer l.making.Unlock()
	if c.Conn, err = l.options(c).Connect(); err != nil {
		return err
	}
	if err = l.subscribe(c); err != nil && !c.IsClosed() { // after a closed connection, ended opens another
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nats.ErrConnectionClosed
	}
	l.conn.Store(c)
	return nil
}

// again opens another connection, and retries until it succeeds.
func (l *Link) again() {
	pause := time.NewTicker(againPause)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-l.dials.Done():
			return
		}
		err := l.open()
		if err == nil || l.dials.Err() != nil {
			return
		}
		l.o.State(false, l.describe(err).Error())
	}
}

// options returns the client options for c.
func (l *Link) options(c *connection) nats.Options {
	o := l.o.Options(l.dials, l.o.Self.Node+"."+l.o.Self.Run)
	o.InboxPrefix = l.o.Subjects.Inbox(l.o.Self.Node)
	o.RetryOnFailedConnect, o.IgnoreAuthErrorAbort = true, true
	o.NoEcho = true // a message to any node must not come back to this one
	o.ConnectedCB = func(*nats.Conn) { l.state(c, true, nil) }
	o.ReconnectedCB = o.ConnectedCB
	o.DisconnectedErrCB = func(_ *nats.Conn, err error) { l.state(c, false, err) }
	o.ReconnectErrCB = func(_ *nats.Conn, err error) {
		select {
		case l.first <- err:
		default:
		}
		l.state(c, false, err)
	}
	o.ClosedCB = func(*nats.Conn) { l.ended(c) }
	o.AsyncErrorCB = func(_ *nats.Conn, s *nats.Subscription, err error) { l.fault(c, s, err) }
	o.LameDuckModeHandler = func(c *nats.Conn) {
		l.o.Log.Info("the server of the cluster stops; connecting to another", "server", c.ConnectedUrlRedacted())
		_ = c.FlushTimeout(flushBound)
		_ = c.ForceReconnect()
	}
	return o
}

// ended handles a connection that was closed for good.
func (l *Link) ended(c *connection) {
	defer close(c.over)
	<-c.ready
	l.mu.Lock()
	needed := !l.closed && c == l.conn.Load()
	l.mu.Unlock()
	if !needed {
		return
	}
	l.o.Log.Warn("the connection to the cluster is closed; making another", "server", c.ConnectedUrlRedacted(), "error",
		c.LastError())
	l.state(c, false, c.LastError())
	l.tasks.Go(l.again)
}
