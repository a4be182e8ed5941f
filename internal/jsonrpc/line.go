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
	// MaxLineBytes bounds an incoming line without its newline. 0 means 16 MiB. A longer
	// line ends the connection with ErrLineTooLong.
	MaxLineBytes int

	// Noise is called with each line that is not JSON-RPC, and its fault. It runs on the
	// reading goroutine and must be quick; line is valid during the call only. An error
	// from Noise ends the connection. Nil: the 64th such line in a row ends the
	// connection with ErrNoise.
	Noise func(line []byte, err error) error

	// WriteTimeout bounds the time in which the peer takes no byte; then the connection
	// ends with ErrStalled. 0 means 30 s.
	WriteTimeout time.Duration
}

const (
	defaultMaxLine      = 16 << 20
	defaultWriteTimeout = 30 * time.Second
	maxNoise            = 64
	maxWaste            = 64 << 10 // bytes of lines without a message between two pauses
)

// Traffic counts the bytes of a transport, and the lines that are not JSON-RPC.
type Traffic struct{ Noise, BytesIn, BytesOut uint64 }

// Line is a [Transport] of one JSON object per line. Incoming lines may end in CRLF,
// begin with a byte order mark or be empty. Frames that are sent at the same time share
// one write; each is sent whole or not at all.
type Line struct {
	in          lineReader
	out         lineWriter
	noise       func(line []byte, err error) error
	noiseTotal  atomic.Uint64 // lines that are not JSON-RPC
	noiseInRow  int           // lines that are not JSON-RPC since the last message
	wastedBytes int           // bytes of lines without a message since the last pause
}

// NewLineTransport frames messages as lines. Closing r and w must unblock their Read and
// Write, as it does for pipes made by os.Pipe. The standard streams of a process are
// usually in blocking mode: with a plain os.Stdin as r, Close takes effect only with
// the next byte, and a plain os.Stdout as w costs a goroutine switch per write. See
// [Pollable].
func NewLineTransport(r io.ReadCloser, w io.WriteCloser, o LineOptions) *Line {
	if o.MaxLineBytes == 0 {
		o.MaxLineBytes = defaultMaxLine
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	l := &Line{noise: o.Noise}
	if l.noise == nil {
		l.noise = l.limitNoise
	}
	l.in.init(r, o.MaxLineBytes)
	l.out.init(w, o.WriteTimeout, l.in.close)
	return l
}

// limitNoise is the default of LineOptions.Noise.
func (l *Line) limitNoise([]byte, error) error {
	if l.noiseInRow >= maxNoise {
		return ErrNoise
	}
	return nil
}

// Read returns the next message. The caller owns its memory.
func (l *Line) Read() (Message, error) {
	for {
		line, shared, err := l.next()
		if err != nil {
			if err != errInterrupted {
				l.in.discard()
			}
			return Message{}, err
		}
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		if rawjson.SkipSpace(line, 0) == len(line) {
			l.countWasted(line)
			continue
		}
		if shared {
			line = bytes.Clone(line)
		}
		m, err := Decode(line)
		if broken := cmp.Or(err, m.Invalid); broken != nil && l.in.ended {
			// A partial line, written by a peer that has ended, answers no call.
			err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, broken)
		}
		if err == nil {
			l.noiseInRow = 0
			return m, nil
		}
		l.noiseInRow++
		l.noiseTotal.Add(1)
		l.countWasted(line)
		if err := l.noise(line, err); err != nil {
			return Message{}, err
		}
	}
}

// countWasted counts a line without a message. After many bytes of them it pauses the
// reader.
func (l *Line) countWasted(line []byte) {
	if l.wastedBytes += len(line) + 1; l.wastedBytes >= maxWaste {
		l.wastedBytes = 0
		time.Sleep(minPause)
	}
}

// next returns the next line, as lineReader.line does. Before it waits for input, it
// writes the answers held back.
func (l *Line) next() (line []byte, shared bool, err error) {
	for {
		if line, shared, ok, err := l.in.line(); ok || err != nil {
			return line, shared, err
		}
		l.out.burst.Store(l.in.linesFound > 1)
		l.out.flushHeld()
		if err := l.in.fill(); err == errInterrupted {
			return nil, false, err
		} else if err != nil {
			return nil, false, l.out.readError(err)
		}
	}
}

// Write sends m. It does not wait until the peer takes m. With more than 4 MiB waiting
// for the peer it blocks until there is room or ctx ends.
func (l *Line) Write(ctx context.Context, m Message) error { return l.out.write(ctx, &m, false) }

// WriteLater is Write for the reading goroutine: m may wait for others until Read
// needs more input.
func (l *Line) WriteLater(ctx context.Context, m Message) error { return l.out.write(ctx, &m, true) }

func (l *Line) flushHeld() { l.out.flushHeld() }

// Flush waits until the pipe has taken all written frames, or ctx ends.
func (l *Line) Flush(ctx context.Context) error { return l.out.flush(ctx) }

// Close closes both ends and waits for the writer. It is idempotent, unblocks Read
// and Write and does not drain.
func (l *Line) Close() error {
	l.out.close()
	return l.in.close()
}

func (l *Line) canInterrupt() bool { return l.in.deadline != nil }

func (l *Line) interrupt() { _ = l.in.deadline.SetReadDeadline(time.Unix(1, 0)) } // fails only after Close

// Traffic returns the counts so far.
func (l *Line) Traffic() Traffic {
	return Traffic{Noise: l.noiseTotal.Load(), BytesIn: l.in.total.Load(), BytesOut: l.out.total.Load()}
}
