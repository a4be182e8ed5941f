package runtime

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/observe/wiretap"
	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/recording/recorder"
	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/protocol"
)

// maxNoise is how many non-frame lines are tolerated: in total until the end of the handshake, later in a row.
const maxNoise = 64

// noiseFilter logs and counts non-frame lines on stdout.
type noiseFilter struct {
	log           *slog.Logger
	onNoise       func(line []byte) // called for every complete non-frame line; may be nil
	handshakeDone atomic.Bool       // the handshake has ended
	framed        atomic.Bool       // a frame was read

	// Used by the reading goroutine, and by others only after the end of the connection:
	limit    *rate.Limiter
	unlogged int // lines since the last one that was logged
	inRow    int // lines that count towards maxNoise
	last     string
	partial  string // incomplete line at the end of the stream
}

// line handles a non-frame line. If it returns an error, the connection ends.
func (n *noiseFilter) line(line []byte, err error) error {
	n.last = cutLine(line)
	if errors.Is(err, io.ErrUnexpectedEOF) { // the child ended while writing a line
		n.partial = n.last
		return nil
	}
	if n.limit.Allow() {
		n.log.Warn("stdout carries a line that is not a frame; logs belong on stderr",
			"line", display.Escape(n.last), "reason", err, "unlogged", n.unlogged)
		n.unlogged = 0
	} else {
		n.unlogged++
	}
	if n.onNoise != nil {
		n.onNoise(line)
	}
	if n.inRow++; n.inRow > maxNoise {
		return ndjson.ErrNoise
	}
	return nil
}

func (n *noiseFilter) frame() {
	n.framed.Store(true)
	if n.handshakeDone.Load() {
		n.inRow = 0
	}
}

// fault returns why a child with too many non-frame lines is killed.
func (n *noiseFilter) fault() *protocol.Error {
	fault := protocol.Errorf(protocol.InvalidJSON,
		"it wrote more than %d lines in a row to stdout that are not frames, and was killed", maxNoise)
	if !n.handshakeDone.Load() {
		fault = protocol.Errorf(protocol.HandshakeInvalid,
			"it wrote more than %d lines to stdout that are not frames before it answered the handshake; logs belong "+
				"on stderr", maxNoise)
	}
	fault.Evidence = &protocol.Evidence{Line: n.last}
	return fault
}

// processTransport is the transport to a process. It reports each line to noise and seen.
type processTransport struct {
	*ndjson.Transport
	noise *noiseFilter
	seen  observers
}

func (l *processTransport) Read() (jsonrpc.Message, error) {
	m, err := l.Transport.Read()
	if err == nil {
		l.noise.frame()
		l.seen.received(&m)
	}
	return m, err
}

func (l *processTransport) Write(ctx context.Context, m jsonrpc.Message) error {
	l.seen.sent(&m)
	return l.Transport.Write(ctx, m)
}

// WriteLater implements [jsonrpc.Batcher].
func (l *processTransport) WriteLater(ctx context.Context, m jsonrpc.Message) error {
	l.seen.sent(&m)
	return l.Transport.WriteLater(ctx, m)
}

// tappedTransport is a transport that is not based on lines. It reports each message to seen.
type tappedTransport struct {
	jsonrpc.Transport
	seen observers
	read atomic.Uint64 // messages so far
}

func (t *tappedTransport) Read() (jsonrpc.Message, error) {
	m, err := t.Transport.Read()
	if err == nil {
		t.read.Add(1)
		t.seen.received(&m)
	}
	return m, err
}

// Traffic returns the number of messages so far.
func (t *tappedTransport) Traffic() jsonrpc.Traffic { return jsonrpc.Traffic{Signs: t.read.Load()} }

func (t *tappedTransport) Write(ctx context.Context, m jsonrpc.Message) error {
	t.seen.sent(&m)
	return t.Transport.Write(ctx, m)
}

// observers see all messages between the host and an extension.
type observers struct {
	tap    *wiretap.Wire
	record *recorder.Wire
	pid    int // 0 without a process
}

func (o *observers) received(m *jsonrpc.Message) {
	if m.Raw == nil { // made up by the transport for an HTTP exchange that failed
		return
	}
	o.tap.Show(o.pid, false, m.Raw)
	if o.record.On() {
		m.Free = nil // the record keeps the frame
		o.record.Frame(false, m.Of, m.Raw)
	}
}

func (o *observers) sent(m *jsonrpc.Message) {
	if !o.tap.Tapped() && !o.record.On() {
		return
	}
	if frame, err := jsonrpc.Append(nil, m); err == nil {
		o.tap.Show(o.pid, true, frame)
		o.record.Frame(true, nil, frame)
	}
}

func (l *processTransport) onNoise(line []byte, err error) error {
	l.seen.tap.Show(l.seen.pid, false, line)
	l.seen.record.Noise(line)
	return l.noise.line(line, err)
}

func logStderr(log *slog.Logger, l process.Line) {
	attrs := []slog.Attr{slog.String("stream", "stderr")}
	if l.Truncated {
		attrs = append(attrs, slog.Bool("truncated", true))
	}
	if l.Dropped > 0 {
		attrs = append(attrs, slog.Int("dropped", l.Dropped))
	}
	log.LogAttrs(context.Background(), l.Level, l.Text, attrs...)
}
