package runtime

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/jsonrpc/ndjson"
	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/wiretap"
	"github.com/exthost/exthost/protocol"
)

// maxNoise is how many lines that are not frames are skipped: before the
// handshake in all, afterwards in a row.
const maxNoise = 64

// noise judges the lines on stdout that are not frames.
type noise struct {
	log     *slog.Logger
	heard   func(line []byte) // told of every such line; may be nil
	settled atomic.Bool       // the handshake is over

	// These belong to the connection's reader; its owner reads them after its end.
	limit *rate.Limiter
	muted int // lines not logged since the last one that was
	row   int // lines that count
	last  string
	half  string // the unfinished line that the stream ended in
}

func newNoise(log *slog.Logger) *noise {
	return &noise{log: log, limit: rate.NewLimiter(1, 10)}
}

// line takes a line that is not a frame; an error ends the connection.
func (n *noise) line(line []byte, err error) error {
	n.last = cutLine(line)
	if errors.Is(err, io.ErrUnexpectedEOF) { // what the child was about to say
		n.half = n.last
		return nil
	}
	if n.limit.Allow() {
		n.log.Warn("stdout carries a line that is not a frame; logs belong on stderr",
			"line", process.Escape(n.last), "reason", err, "unlogged", n.muted)
		n.muted = 0
	} else {
		n.muted++
	}
	if n.heard != nil {
		n.heard(line)
	}
	if n.row++; n.row > maxNoise {
		return ndjson.ErrNoise
	}
	return nil
}

// frame takes note of a line that is one.
func (n *noise) frame() {
	if n.settled.Load() {
		n.row = 0
	}
}

// verdict is why a child that wrote too much noise was killed.
func (n *noise) verdict() *protocol.Error {
	fault := protocol.Errorf(protocol.InvalidJSON, "it wrote more than %d lines in a row to stdout that are not frames, and was killed", maxNoise)
	if !n.settled.Load() {
		fault = protocol.Errorf(protocol.HandshakeInvalid,
			"it wrote more than %d lines to stdout that are not frames before it answered the handshake; logs belong on stderr", maxNoise)
	}
	fault.Evidence = &protocol.Evidence{Line: n.last}
	return fault
}

// listener is a wire that tells noise of the frames in between.
type listener struct {
	*ndjson.Transport
	noise *noise
	tap   *wiretap.Wire
	pid   int
}

func (l *listener) Read() (jsonrpc.Message, error) {
	m, err := l.Transport.Read()
	if err == nil {
		l.noise.frame()
		l.tap.Show(l.pid, false, m.Raw)
	}
	return m, err
}

func (l *listener) Write(ctx context.Context, m jsonrpc.Message) error {
	showSent(l.tap, l.pid, m)
	return l.Transport.Write(ctx, m)
}

// WriteLater is Write for answers that may wait for others.
func (l *listener) WriteLater(ctx context.Context, m jsonrpc.Message) error {
	showSent(l.tap, l.pid, m)
	return l.Transport.WriteLater(ctx, m)
}

// tapped is a wire to elsewhere that shows what passes.
type tapped struct {
	jsonrpc.Transport
	tap *wiretap.Wire
}

func (t *tapped) Read() (jsonrpc.Message, error) {
	m, err := t.Transport.Read()
	if err == nil {
		t.tap.Show(0, false, m.Raw)
	}
	return m, err
}

func (t *tapped) Write(ctx context.Context, m jsonrpc.Message) error {
	showSent(t.tap, 0, m)
	return t.Transport.Write(ctx, m)
}

func showSent(tap *wiretap.Wire, pid int, m jsonrpc.Message) {
	if !tap.Tapped() {
		return
	}
	if frame, err := jsonrpc.Append(nil, &m); err == nil {
		tap.Show(pid, true, frame)
	}
}

// heard takes a line that is not a frame.
func (l *listener) heard(line []byte, err error) error {
	l.tap.Show(l.pid, false, line)
	return l.noise.line(line, err)
}

// logStderr writes a line of the child's stderr to the log.
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
