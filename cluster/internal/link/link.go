// Package link is the connection of one run of a node to the NATS servers of its cluster: it
// sends and hands on messages, and says which of them surely were not sent.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/internal/concurrent/inflight"
)

// ErrUnsent is in the errors of messages that were not sent and never will be. After any other
// error a message may have been sent.
var ErrUnsent = errors.New("not sent")

// ErrRefused is in the errors of [Connect] that waiting does not mend: a server refuses the
// credentials, or its certificate is not trusted.
var ErrRefused = errors.New("refused")

// Options say where and as whom a run connects.
type Options struct {
	URLs []string    // nats://host:port or tls://host:port, at least one
	TLS  *tls.Config // nil: as the servers ask, with the certificates of the system

	JWT      string                       // of the user, with Sign
	NKey     string                       // the public key of a user without a JWT, with Sign
	Sign     func([]byte) ([]byte, error) // signs what the server asks to
	User     string                       // with Password
	Password string
	Token    string

	Subjects wire.Subjects
	Self     wire.Address
	Log      *slog.Logger // nil: none

	// Received takes each message but those to this run that nobody took. Messages of one sender
	// to this run come in the order in which they were sent, one after the other; so do those to
	// all and those to any node, each on a goroutine of its own. It must not wait: the next
	// messages, whoever sent them, wait for it.
	Received func(Message)
	// NotTaken says that no run took the message that [Link.Send] was given notTaken with. It is
	// called as Received is for messages to this run.
	NotTaken func(what string)
	// State says that the link is connected, or why it is not. nil is not told. It must not wait.
	State func(connected bool, reason string)
}

// Message is one message of another run.
type Message struct {
	From string // the node, by the subject
	Way  Way
	Data []byte // may be kept
}

// Way is how a message was addressed.
type Way int

// The ways.
const (
	ToRun  Way = iota // to this run
	ToName            // to whichever run has the name of this node, see [Link.Hold]
	ToAll             // to all nodes
	ToAny             // to one node of all
)

// Counts are totals since the start of a link.
type Counts struct {
	In, Out  uint64 // messages
	InBytes  uint64
	OutBytes uint64
	Dropped  uint64 // messages that came faster than Received took them
	Refused  uint64 // subjects that the servers did not permit
}

// Link is a connection, which is made anew whenever it breaks. Its methods may be called by many
// goroutines at once.
type Link struct {
	o     Options
	conn  atomic.Pointer[connection]
	first chan error    // why the first attempt failed
	tasks inflight.Gate // messages that are handled, and a connection that is made
	dials context.Context
	cut   context.CancelFunc // ends dials, and all connections

	refused atomic.Uint64

	making sync.Mutex // held while subscriptions are made
	held   bool       // guarded by making

	mu     sync.Mutex // guards what follows
	closed bool
	before Counts          // of earlier connections
	said   map[string]bool // refusals that were logged
}

// connection is a connection of the client, which makes it anew until a server says an error that the
// client does not know. It is closed for good then, and the link makes another.
type connection struct {
	*nats.Conn
	ready chan struct{} // closed: the subscriptions are made
	over  chan struct{} // closed: the last callback about the connection has returned

	subs    []*nats.Subscription // guarded by Link.mu
	dropped uint64               // by them, as last counted; guarded by Link.mu
}

const (
	flushBound = 2 * time.Second
	againPause = time.Second // before another connection
	maxSaid    = 64          // refusals that are logged

	maxPending      = 1 << 16   // messages that wait for Received, for each kind of subject
	maxPendingBytes = 128 << 20 // of those
)

// Connect connects. Servers that cannot be reached are no error: the link goes on trying. It
// waits at most 2 s for each server, and until ctx ends for the reason of a failure. An error of
// a server that refuses this run has [ErrRefused].
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
		return nil, describe(o.URLs, err)
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
	if err = describe(o.URLs, err); errors.Is(err, ErrRefused) {
		_ = l.Close(ctx)
		return nil, err
	}
	return l, nil
}

// open makes a connection, with what this run listens to. Of one that is not taken nothing is told after it.
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

// take connects, and has the link use the connection.
func (l *Link) take(c *connection) (err error) {
	l.making.Lock()
	defer l.making.Unlock()
	if c.Conn, err = l.options(c).Connect(); err != nil {
		return err
	}
	if err = l.subscribe(c); err != nil && !c.IsClosed() { // one that is closed already has another after it
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nats.ErrConnectionClosed
	}
	if last := l.conn.Load(); last != nil {
		l.before = last.counts(l.before)
	}
	l.conn.Store(c)
	return nil
}

// again makes another connection in the place of one that is closed for good.
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
		l.o.State(false, describe(l.o.URLs, err).Error())
	}
}

// options are those of a node.
func (l *Link) options(c *connection) nats.Options {
	a := natsclient.Access{
		URLs:     l.o.URLs,
		TLS:      l.o.TLS,
		JWT:      l.o.JWT,
		NKey:     l.o.NKey,
		Sign:     l.o.Sign,
		User:     l.o.User,
		Password: l.o.Password,
		Token:    l.o.Token,
	}
	o := a.Options(l.dials, l.o.Self.Node+"."+l.o.Self.Run)
	o.InboxPrefix = l.o.Subjects.Inbox(l.o.Self.Node)
	o.RetryOnFailedConnect, o.IgnoreAuthErrorAbort = true, true
	o.NoEcho = true // a question to any node is for another one
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

// ended takes the end of a connection for good.
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
