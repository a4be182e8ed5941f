// Package relay lets the MCP clients of a directory share one host. A relay is the process that a client starts.
// It passes messages between the client and a host over a unix socket; [Host] is the host's end. A relay reads only
// the id and the method of a message.
//
// A relay outlives its host. Each request in flight when the host ends gets one error. The client's next message
// finds or starts another host, in which the relay resumes the client's session.
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

	"github.com/exthost/exthost/protocol"
)

// Options configure Run.
type Options struct {
	In  io.ReadCloser  // from the client; EOF means that the client has left
	Out io.WriteCloser // to the client
	// Connect returns a connection to a host that has accepted the client.
	Connect func(ctx context.Context) (*net.UnixConn, error)
	// Pipes moves the messages to pipes, which a [Host] receives over the connection. Default: messages use the
	// connection itself.
	Pipes bool
}

// Run relays one client's messages until In ends and the host has answered (no error), the client accepts no more
// output, or ctx ends. If the first Connect fails, Run returns that error before it reads In. Run closes In and
// Out. A read or write that Close does not interrupt, such as on a terminal, outlives Run.
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
	// One processor more than the two that are blocked in reads: without an idle processor, the Go runtime retakes
	// the blocked ones, and wakes a thread every 20 µs to do so.
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
	_, _ = o.In.Close(), o.Out.Close() // unblocks reads and writes
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

// endTimeout limits the wait for a write to a client that does not read.
const endTimeout = time.Second

// relay is the state of one call of Run.
type relay struct {
	ctx     context.Context
	connect func(ctx context.Context) (*net.UnixConn, error)
	pipes   bool
	out     output
	broken  chan error // first failed write to the client

	mu      sync.Mutex
	link    *link // nil without a host
	table   *table
	session session
	scan    scanner // of lines from the client
	passing passing
}

type link struct {
	conn hostConn
	in   *lineReader
	scan scanner       // of lines from the host
	lost chan struct{} // closed when the client has been told that the host ended
}

// MaxLine limits a client's message in bytes. The relay refuses a longer message by itself, because a host would end
// the session over it.
const MaxLine = 16 << 20

// upstream passes on the client's lines, until the client has left and the host has ended the session.
func (r *relay) upstream(in io.Reader) error {
	lines := newLineReader(in, true)
	var long *link          // link that received the start of the current line, or nil
	var why *protocol.Error // why long is nil
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
				_, _ = long.conn.Write([]byte("\n")) // ends the line: the host answers that it is not a message
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

// lengthOfLine returns the length of the first line of a piece, without its line break.
func lengthOfLine(piece []byte) int {
	if n := bytes.IndexByte(piece, '\n'); n >= 0 {
		return n
	}
	return len(piece)
}

// maxTries limits to how many hosts a piece is sent. A cause that makes each host end at once may persist, and while
// hosts are being started, the relay does not notice the end of the client.
const maxTries = 3

var errEnding = errors.New("one host after another has ended at once; exthost serve --stdio --own shows why")

// forward passes on a piece. It returns the link that received it, or the reason why none did. begun is the link
// that received the start of the first line, or nil if the line starts in the piece.
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
		if r.pass(l, piece, false) {
			if r.deliver(l, piece) {
				return l, nil
			}
			continue
		}
		if begun == nil {
			continue
		}
		piece, begun = r.drop(piece, cut()), nil // no other host may get the rest of the line
		if r.scan.began {
			return nil, cut()
		}
		if len(piece) == 0 {
			return nil, nil
		}
	}
}

// deliver writes an announced piece to the host. It returns false if the host received nothing of it, so that another
// host may get it.
func (r *relay) deliver(l *link, piece []byte) bool {
	n, err := l.conn.Write(piece)
	if err != nil && n == 0 && r.recall() {
		<-l.lost
		return false
	}
	if r.passed() != l { // the host ended meanwhile, before end could see this piece
		r.unanswered()
	}
	if err != nil {
		<-l.lost // by then every request has its error
	}
	return true
}

// drop removes the first line from a piece and returns the rest. If the end of the line is in the piece, drop answers
// its request with why.
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

// linked returns the current link, or connects. Run calls it first, later only upstream.
func (r *relay) linked() (*link, error) {
	if l := r.current(); l != nil {
		return l, nil
	}
	conn, err := r.connect(r.ctx)
	if err != nil {
		return nil, err
	}
	var c hostConn = conn
	if r.pipes {
		if c, err = sendPipes(conn); err != nil {
			return nil, err
		}
	}
	in := newLineReader(c, false)
	if err := r.resume(c, in); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	blockPipes(c)
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

// leaveTimeout limits the wait for a host that does not end the session, for instance because it is stopped. A
// working host ends it within 5 s of its client.
var leaveTimeout = 10 * time.Second

// leave tells the host that the client has left, and waits for the session to end.
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

// downstream passes on the host's lines until the host ends.
func (r *relay) downstream(l *link) {
	for {
		piece, err := l.in.next()
		if err != nil {
			break
		}
		if !l.scan.began {
			r.out.mu.Lock() // held until the end of a long line
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
	if l.scan.began { // lets the client discard a truncated line
		_, _ = r.out.w.Write([]byte("\n"))
		r.out.mu.Unlock()
	}
	r.end(l)
}

// end ends a link and answers the open requests. It leaves a client's piece that is being written just then to
// upstream, which learns whether the host received the piece.
func (r *relay) end(l *link) {
	_ = l.conn.Close()
	r.mu.Lock()
	r.link = nil
	r.mu.Unlock()
	r.unanswered()
	close(l.lost)
}

// unanswered answers the requests that an ended host left open.
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

// tell sends the client a message of the relay itself.
func (r *relay) tell(message any) {
	data, err := json.Marshal(message)
	if err != nil {
		return // an invalid id, which no client waits for
	}
	if err := r.out.write(append(data, '\n')); err != nil {
		r.out.fail(r.broken, err)
	}
}

type output struct {
	mu sync.Mutex // held while a line is written
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

// resumeTimeout bounds the whole exchange with a new host that resumes the session.
const resumeTimeout = 30 * time.Second
