package ndjson

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// Options configures a [Transport]. The zero value is valid.
type Options struct {
	// MaxLineBytes bounds an incoming line without its newline. A longer line ends the connection with
	// ErrLineTooLong. 0 means 16 MiB.
	MaxLineBytes int

	// Noise is called with each line that is not JSON-RPC, and its fault. Noise runs on the reading
	// goroutine and must be quick; line is valid only during the call. An error that Noise returns
	// ends the connection. Nil: the 64th such line in a row ends the connection with ErrNoise.
	Noise func(line []byte, err error) error

	// WriteTimeout is how long the peer may take no byte before the connection ends with ErrStalled. 0 means 30 s.
	WriteTimeout time.Duration
}

// Errors of a [Transport].
var (
	// ErrLineTooLong ends a connection whose peer sent a line over MaxLineBytes.
	ErrLineTooLong = errors.New("jsonrpc: line too long")
	// ErrNoise ends a connection whose peer sent too many lines that are not JSON-RPC.
	ErrNoise = errors.New("jsonrpc: too many lines that are not JSON-RPC")
	// ErrStalled ends a connection whose peer read nothing for WriteTimeout.
	ErrStalled = errors.New("jsonrpc: peer stopped reading")
)

const (
	defaultMaxLine      = 16 << 20
	defaultWriteTimeout = 30 * time.Second
	maxNoise            = 64
	maxWaste            = 64 << 10 // bytes of lines without a message until the reader pauses
	noisePause          = 10 * time.Millisecond
)

// Transport is a [jsonrpc.Transport] with one JSON object per line. Incoming lines may end in CRLF, begin with a byte
// order mark or be empty. Concurrent frames share one write; each is sent whole or not at all.
type Transport struct {
	in          reader
	out         writer
	noise       func(line []byte, err error) error
	noiseTotal  atomic.Uint64 // lines that are not JSON-RPC
	signs       atomic.Uint64 // signs of life; see [jsonrpc.Stats]
	noiseInRow  int           // lines that are not JSON-RPC since the last message
	wastedBytes int           // bytes of lines without a message since the last pause
}

var (
	_ jsonrpc.Awaiter     = (*Transport)(nil)
	_ jsonrpc.Interrupter = (*Transport)(nil)
	_ jsonrpc.Batcher     = (*Transport)(nil)
)

// New returns a transport that reads messages from r and writes them to w. Close of r and w must unblock their Read
// and Write, as it does for pipes made by os.Pipe. The standard streams of a process are usually in blocking mode:
// with a plain os.Stdin, Close takes effect only with the next byte, and a plain os.Stdout costs a goroutine switch
// per write. See [Pollable].
func New(r io.ReadCloser, w io.WriteCloser, o Options) *Transport {
	o.MaxLineBytes = cmp.Or(o.MaxLineBytes, defaultMaxLine)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	t := &Transport{noise: o.Noise}
	if t.noise == nil {
		t.noise = t.limitNoise
	}
	t.in.init(r, o.MaxLineBytes)
	t.out.init(w, o.WriteTimeout, t.in.close)
	return t
}

// limitNoise is the default of Options.Noise.
func (t *Transport) limitNoise([]byte, error) error {
	if t.noiseInRow >= maxNoise {
		return ErrNoise
	}
	return nil
}

// Read returns the next message. The caller owns its memory until it calls Free.
func (t *Transport) Read() (jsonrpc.Message, error) {
	for {
		line, shared, err := t.next()
		if err != nil {
			if err != jsonrpc.ErrInterrupted {
				t.in.discard()
			}
			return jsonrpc.Message{}, err
		}
		free := func() {}
		if !shared {
			free = freeing(line)
		}
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		if rawjson.SkipSpace(line, 0) == len(line) {
			free()
			t.countWasted()
			continue
		}
		if shared {
			line = bytes.Clone(line)
		}
		m, err := jsonrpc.Decode(line)
		m.Free = free
		if broken := cmp.Or(err, m.Invalid); broken != nil && t.in.ended {
			// A partial line of a peer that has ended answers no call.
			err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, broken)
		}
		if err == nil {
			t.noiseInRow = 0
			t.signs.Add(1)
			return m, nil
		}
		t.noiseInRow++
		t.noiseTotal.Add(1)
		t.countWasted()
		if err := t.noise(line, err); err != nil {
			return jsonrpc.Message{}, err
		}
		free()
	}
}

// countWasted counts the latest line, which is not a message, and pauses the reader after many bytes of such lines.
func (t *Transport) countWasted() {
	if t.wastedBytes += t.in.lineBytes; t.wastedBytes >= maxWaste {
		t.wastedBytes = 0
		time.Sleep(noisePause)
	}
}

// next reads until reader.line returns a line.
func (t *Transport) next() (line []byte, shared bool, err error) {
	for {
		if line, shared, ok, err := t.in.line(); ok || err != nil {
			return line, shared, err
		}
		t.in.keepPartial()
		if err := t.fill(); err == jsonrpc.ErrInterrupted {
			return nil, false, err
		} else if err != nil {
			return nil, false, t.out.readError(err)
		}
	}
}

// fill writes the held answers and waits for input.
func (t *Transport) fill() error {
	t.out.flushHeld()
	err := t.in.fill()
	t.out.arrived.Store(int32(t.in.arrived))
	if err == nil && t.in.arrived == 0 && t.in.inObject() {
		t.signs.Add(1)
	}
	return err
}

// Await implements [jsonrpc.Awaiter]. Errors are left to the next Read.
func (t *Transport) Await() {
	if t.in.start == t.in.end {
		_ = t.fill()
	}
}

// Write sends m without waiting for the peer to read it. While more than 4 MiB wait for the peer, it blocks until
// there is room or ctx ends.
func (t *Transport) Write(ctx context.Context, m jsonrpc.Message) error {
	return t.out.write(ctx, &m, false)
}

// WriteLater is Write for the reading goroutine: m may be held until Read needs more input.
func (t *Transport) WriteLater(ctx context.Context, m jsonrpc.Message) error {
	return t.out.write(ctx, &m, true)
}

// FlushHeld writes the messages held by WriteLater. Only the reading goroutine may call it.
func (t *Transport) FlushHeld() { t.out.flushHeld() }

// Flush waits until the pipe has taken all written frames, or ctx ends.
func (t *Transport) Flush(ctx context.Context) error { return t.out.flush(ctx) }

// Close closes both ends and waits for the writer. It is idempotent, unblocks Read and Write, and does not drain.
func (t *Transport) Close() error {
	t.out.close()
	return t.in.close()
}

// CanInterrupt reports whether Interrupt works, which needs a reader with deadlines.
func (t *Transport) CanInterrupt() bool { return t.in.deadline != nil }

// Interrupt makes Read return [jsonrpc.ErrInterrupted].
func (t *Transport) Interrupt() { _ = t.in.deadline.SetReadDeadline(time.Unix(1, 0)) } // fails only after Close

// Traffic returns the counts so far.
func (t *Transport) Traffic() jsonrpc.Traffic {
	return jsonrpc.Traffic{
		Noise:    t.noiseTotal.Load(),
		Signs:    t.signs.Load(),
		BytesIn:  t.in.total.Load(),
		BytesOut: t.out.total.Load(),
	}
}

// Partial returns the beginning of the line that the peer has begun and not ended yet, at most 256 bytes of it, and how
// many bytes of it have come; 0 if there is none.
func (t *Transport) Partial() (begin []byte, bytes int) { return t.in.waiting() }

// Backlog counts the bytes that wait between the two ends of a connection; -1 means unknown.
type Backlog struct {
	Unsent int // accepted by Write, not yet in the pipe
	Unread int // in the pipe to the peer
	Output int // in the pipe from the peer
}

// Backlog returns the bytes that wait now; after Close it is 0 or unknown.
func (t *Transport) Backlog() Backlog {
	t.out.mu.Lock()
	unsent := len(t.out.buf) + t.out.unwritten
	t.out.mu.Unlock()
	return Backlog{Unsent: unsent, Unread: inPipe(t.out.w), Output: inPipe(t.in.r)}
}
