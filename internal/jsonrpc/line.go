package jsonrpc

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
)

// LineOptions configures [NewLineTransport].
type LineOptions struct {
	// MaxLineBytes bounds an incoming line, its newline not counted. 0 means 16 MiB.
	// One byte more ends the conversation with ErrLineTooLong.
	MaxLineBytes int

	// Noise is shown each line that is not JSON-RPC and what is wrong with it. It runs
	// on whichever goroutine reads and must be quick; line is valid during the call
	// only. An error it returns ends the conversation. Nil: the 64th in a row ends it
	// with ErrNoise.
	Noise func(line []byte, err error) error

	// WriteTimeout is how long the peer may accept no byte before the conversation
	// ends with ErrStalled. 0 means 30 s.
	WriteTimeout time.Duration
}

const (
	defaultMaxLine      = 16 << 20
	defaultWriteTimeout = 30 * time.Second
	maxNoise            = 64
	maxWaste            = 64 << 10 // bytes read that are no message, before a pause
)

// Traffic counts what went over a line transport.
type Traffic struct{ Noise, BytesIn, BytesOut uint64 }

// Line is a [Transport] of one JSON object per line. Incoming lines may end in
// CRLF, begin with a byte order mark or be empty. Outgoing frames that meet in
// time leave in one write; each is sent whole or not at all.
type Line struct {
	in    lineReader
	out   lineWriter
	noise func(line []byte, err error) error
	total atomic.Uint64 // lines of noise
	row   int           // of them, in a row
	waste int           // bytes of lines that were no messages, since the last pause
}

// NewLineTransport frames messages as lines. Closing r and w must unblock their
// Read and Write, as it does for pipes made by os.Pipe. The standard streams of a
// process are usually in blocking mode: a plain os.Stdin as r lets Close take
// effect with the next byte only, and a plain os.Stdout as w costs a goroutine
// switch per write, unless it is set to non-blocking mode and opened anew with
// os.NewFile.
func NewLineTransport(r io.ReadCloser, w io.WriteCloser, o LineOptions) *Line {
	if o.MaxLineBytes == 0 {
		o.MaxLineBytes = defaultMaxLine
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	l := &Line{noise: o.Noise}
	if l.noise == nil {
		l.noise = l.tolerate
	}
	l.in.init(r, o.MaxLineBytes)
	l.out.init(w, o.WriteTimeout, l.in.close)
	return l
}

// tolerate is the default for LineOptions.Noise.
func (l *Line) tolerate([]byte, error) error {
	if l.row >= maxNoise {
		return ErrNoise
	}
	return nil
}

// Read returns the next message, which owns its memory.
func (l *Line) Read() (Message, error) {
	for {
		line, shared, err := l.next()
		if err != nil {
			if err != errInterrupted {
				l.in.drop()
			}
			return Message{}, err
		}
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		if rawjson.SkipSpace(line, 0) == len(line) {
			l.wasted(line)
			continue
		}
		if shared {
			line = bytes.Clone(line)
		}
		m, err := Decode(line)
		if broken := cmp.Or(err, m.Invalid); broken != nil && l.in.ended {
			// Half a line, left by a peer that is gone: nobody's answer.
			err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, broken)
		}
		if err == nil {
			l.row = 0
			return m, nil
		}
		l.row++
		l.total.Add(1)
		l.wasted(line)
		if err := l.noise(line, err); err != nil {
			return Message{}, err
		}
	}
}

// wasted holds the reader up when much was read that is no message.
func (l *Line) wasted(line []byte) {
	if l.waste += len(line) + 1; l.waste >= maxWaste {
		l.waste = 0
		time.Sleep(asidePause)
	}
}

// next returns the next line, as lineReader.line does. Answers held back leave before
// it waits for one.
func (l *Line) next() (line []byte, shared bool, err error) {
	for {
		if line, shared, ok, err := l.in.line(); ok || err != nil {
			return line, shared, err
		}
		l.out.burst.Store(l.in.lines > 1)
		l.out.flushHeld()
		if err := l.in.fill(); err == errInterrupted {
			return nil, false, err
		} else if err != nil {
			return nil, false, l.out.reason(err)
		}
	}
}

// Write sends m. It does not wait for the peer to take it unless much is waiting
// already; then it blocks until there is room or ctx ends.
func (l *Line) Write(ctx context.Context, m Message) error { return l.out.write(ctx, &m, false) }

// WriteLater is Write for the reading goroutine: m may wait for others until Read
// needs more input.
func (l *Line) WriteLater(ctx context.Context, m Message) error { return l.out.write(ctx, &m, true) }

func (l *Line) flushHeld() { l.out.flushHeld() }

// Flush waits until everything written has been taken by the pipe.
func (l *Line) Flush(ctx context.Context) error { return l.out.flush(ctx) }

// Close closes both ends and waits for the writer. It is idempotent, unblocks Read
// and Write and does not drain.
func (l *Line) Close() error {
	l.out.close()
	return l.in.close()
}

func (l *Line) canInterrupt() bool { return l.in.deadline != nil }

func (l *Line) interrupt() { _ = l.in.deadline.SetReadDeadline(time.Unix(1, 0)) } // it can only be closed by now

// Traffic returns the counts so far.
func (l *Line) Traffic() Traffic {
	return Traffic{Noise: l.total.Load(), BytesIn: l.in.total.Load(), BytesOut: l.out.total.Load()}
}
