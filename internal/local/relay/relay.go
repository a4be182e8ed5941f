// Package relay lets the MCP clients of a directory share one host. A relay is the process
// that a client starts: it passes the client's messages to a host over a unix socket, which
// the host serves with a [Host], and passes back what the host says. It knows no more of a
// message than its id and its method.
//
// A relay outlives its host. Each request in flight at the end of the host gets one error.
// The next message of the client finds or starts another host, in which the relay opens the
// client's session again.
package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/local/relay/pipes"
	"github.com/exthost/exthost/protocol"
)

// Options are what a relay connects.
type Options struct {
	In  io.ReadCloser  // of the client; its end is the end of the client
	Out io.WriteCloser // to the client
	// Connect returns a connection to a host that has taken the client.
	Connect func(ctx context.Context) (*net.UnixConn, error)
	// Pipes has the messages go over pipes, which a [Host] takes from the connection. Default:
	// they go over the connection.
	Pipes bool
}

// Run relays the messages of one client until In ends and the host has answered, which is
// no error, until the client takes no more answers, or until ctx ends. An error of the first
// Connect is returned before In is read. Run closes In and Out. A read or write that its
// Close does not interrupt, such as that of a terminal or of a pipe, outlives Run.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &relay{
		ctx:     ctx,
		connect: o.Connect,
		pipes:   o.Pipes,
		out:     output{w: o.Out},
		broken:  make(chan error, 1),
		table:   newTable(),
	}
	if _, err := r.linked(); err != nil {
		return err
	}
	// One processor more than the two that block in reads: while none is idle, the Go runtime
	// takes them away, and wakes a thread every 20 µs for that.
	runtime.GOMAXPROCS(max(3, runtime.GOMAXPROCS(0)))
	read := make(chan error, 1)
	go func() { read <- r.upstream(o.In) }()
	var err error
	select {
	case err = <-read:
	case err = <-r.broken:
	case <-ctx.Done():
		err = ctx.Err()
	}
	cancel()
	_, _ = o.In.Close(), o.Out.Close() // interrupts what is blocked
	written := make(chan struct{})
	go func() {
		r.out.mu.Lock()
		defer r.out.mu.Unlock()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(endTimeout):
	}
	return err
}

// endTimeout bounds the wait for a write to a client that does not read.
const endTimeout = time.Second

// relay is the state of one Run.
type relay struct {
	ctx     context.Context
	connect func(ctx context.Context) (*net.UnixConn, error)
	pipes   bool
	out     output
	broken  chan error // the first failed write to the client

	mu      sync.Mutex
	link    *link // nil: there is none
	table   *table
	session session
	scan    scanner // of the client
	passing passing
}

type link struct {
	conn pipes.Conn
	in   *lineReader
	scan scanner       // of the host
	lost chan struct{} // closed when the end of the host has been told to the client
}

// MaxLine bounds a message of a client, in bytes. A longer one is refused alone; a host would
// end the whole session.
const MaxLine = 16 << 20

// upstream passes on what the client says, until the client has left and the host has ended
// the session.
func (r *relay) upstream(in io.Reader) error {
	lines := newLineReader(in, true)
	var long *link          // that has the beginning of the current line; nil: none has
	var why *protocol.Error // of the latter
	sent := 0               // bytes of the current line
	for {
		piece, err := lines.next()
		if errors.Is(err, io.EOF) {
			r.leave()
			return nil
		}
		if err != nil {
			return err
		}
		if r.scan.began {
			switch {
			case long == nil:
			case long != r.current():
				long, why = nil, cut()
			case sent+lengthOfLine(piece) > MaxLine:
				_, _ = long.conn.Write([]byte("\n")) // the host answers that this is no message
				long, why = nil, tooLong()
			}
			if long == nil {
				piece = r.drop(piece, why)
			}
		} else {
			sent, long = 0, nil
		}
		if len(piece) > 0 {
			sent += len(piece)
			long, why = r.forward(piece, long)
		}
	}
}

// lengthOfLine returns the length of the first line of a piece, without its end.
func lengthOfLine(piece []byte) int {
	if n := bytes.IndexByte(piece, '\n'); n >= 0 {
		return n
	}
	return len(piece)
}

// maxTries bounds the hosts that a piece is passed to: what ends each at once may never cease, and while
// hosts are made nobody hears that the client has left.
const maxTries = 3

var errEnding = errors.New("one host after another has ended at once; exthost serve --stdio --own shows why")

// forward passes on a piece, and returns the link that has it, or why none has. begun is the
// link that has the beginning of the first line; nil if the line begins in the piece.
func (r *relay) forward(piece []byte, begun *link) (*link, *protocol.Error) {
	for tries := 1; ; tries++ {
		l, err := begun, error(nil)
		switch {
		case begun != nil:
		case tries > maxTries:
			err = errEnding
		default:
			l, err = r.linked()
		}
		if r.ctx.Err() != nil {
			return nil, cut()
		}
		if err != nil {
			why := unreachable(err)
			for len(piece) > 0 {
				piece = r.drop(piece, why)
			}
			return nil, why
		}
		switch {
		case r.pass(l, piece, false):
			n, err := l.conn.Write(piece)
			if err != nil && n == 0 && r.recall() {
				<-l.lost
				continue // the host has got nothing
			}
			if r.passed() != l { // the host has ended meanwhile, and end did not know of this piece
				r.unanswered()
			}
			if err != nil {
				<-l.lost // every request has its error by now
			}
			return l, nil
		case begun != nil: // which has ended just now: no other host gets the rest of the line
			piece, begun = r.drop(piece, cut()), nil
			if r.scan.began {
				return nil, cut()
			}
			if len(piece) == 0 {
				return nil, nil
			}
		}
	}
}

// drop returns what follows the first line of a piece, and refuses that line if it has ended.
func (r *relay) drop(piece []byte, why *protocol.Error) []byte {
	n, ended := r.scan.scan(piece)
	if ended {
		r.refuse(&r.scan.env, why)
	}
	return piece[n:]
}

func (r *relay) current() *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.link
}

// linked returns the link, which it makes if there is none. Only Run and then upstream call
// it.
func (r *relay) linked() (*link, error) {
	if l := r.current(); l != nil {
		return l, nil
	}
	conn, err := r.connect(r.ctx)
	if err != nil {
		return nil, err
	}
	var c pipes.Conn = conn
	if r.pipes {
		if c, err = pipes.Send(conn); err != nil {
			return nil, err
		}
	}
	in := newLineReader(c, false)
	if err := r.resume(c, in); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	pipes.Block(c)
	l := &link{conn: c, in: in, lost: make(chan struct{})}
	r.mu.Lock()
	r.link = l
	r.mu.Unlock()
	go func() {
		defer context.AfterFunc(r.ctx, func() { _ = l.conn.Close() })()
		r.downstream(l)
	}()
	return l, nil
}

// leaveTimeout bounds the wait for a host that does not end a session: one that is stopped,
// for instance. A host that works ends a session 5 s after its client at the latest.
var leaveTimeout = 10 * time.Second

// leave tells the host that the client has left, and waits for the end of the session.
func (r *relay) leave() {
	l := r.current()
	if l == nil {
		return
	}
	if l.conn.CloseWrite() != nil {
		return
	}
	select {
	case <-l.lost:
	case <-time.After(leaveTimeout):
	}
}

// downstream passes on what the host says until its end.
func (r *relay) downstream(l *link) {
	for {
		piece, err := l.in.next()
		if err != nil {
			break
		}
		if !l.scan.began {
			r.out.mu.Lock() // until the end of a long line
		}
		r.pass(l, piece, true)
		_, err = r.out.w.Write(piece)
		r.passed()
		if !l.scan.began {
			r.out.mu.Unlock()
		}
		if err != nil {
			r.out.fail(r.broken, err)
			break
		}
	}
	if l.scan.began { // the client drops the rest of a line that was cut off
		_, _ = r.out.w.Write([]byte("\n"))
		r.out.mu.Unlock()
	}
	r.end(l)
}

// end ends a link. What the client is just passing on is left to upstream, which learns whether the host
// got it.
func (r *relay) end(l *link) {
	_ = l.conn.Close()
	r.mu.Lock()
	r.link = nil
	r.mu.Unlock()
	r.unanswered()
	close(l.lost)
}

// unanswered answers what a host that has ended has left unanswered.
func (r *relay) unanswered() {
	r.mu.Lock()
	calls, asked := r.table.take()
	r.session.failed(calls)
	r.mu.Unlock()
	for _, id := range calls {
		r.answer(id, lost())
	}
	for _, id := range asked {
		r.tell(notification{
			"2.0",
			protocol.MethodCancelled,
			cancelled{json.RawMessage(id), "the host that asked has ended"},
		})
	}
}

// refuse answers a request that reached no host.
func (r *relay) refuse(e *envelope, why *protocol.Error) {
	if e.request() {
		r.answer(e.id, why)
	}
}

func (r *relay) answer(id string, err *protocol.Error) {
	r.tell(response{"2.0", json.RawMessage(id), err.Wire()})
}

// tell writes a message of the relay's own to the client.
func (r *relay) tell(message any) {
	data, err := json.Marshal(message)
	if err != nil {
		return // an id that is no JSON: no client waits for it
	}
	if err := r.out.write(append(data, '\n')); err != nil {
		r.out.fail(r.broken, err)
	}
}

// output is the stream to the client.
type output struct {
	mu sync.Mutex // held by who writes a line
	w  io.Writer
}

func (o *output) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.w.Write(b)
	return err
}

// fail reports the first error.
func (o *output) fail(broken chan<- error, err error) {
	select {
	case broken <- err:
	default:
	}
}

// resumeTimeout bounds the answers of a new host to what the relay repeats.
const resumeTimeout = 30 * time.Second
