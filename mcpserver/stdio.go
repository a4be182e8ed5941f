package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/internal/wire/ndjson"
	"github.com/exthost/exthost/protocol"
)

const (
	maxInvalidLines  = 64          // consecutive ones after which the session ends
	maxNotifications = 256         // that wait for the backend; more are dropped
	shutdownGrace    = time.Second // time for requests to finish after the end of the context
	cancelGrace      = time.Second // time for cancelled requests to end
)

// ServeStdio serves one client over lines of JSON, legacy and modern versions on one stream. It blocks until r ends.
// That is how a client disconnects, so it is no error: requests in flight then have DrainTimeout to finish. After the
// end of ctx they have a second, and after a failed write to w none; ServeStdio then returns the error. r and w are
// closed.
//
// While ServeStdio runs, a write to a closed stdout is an error instead of a fatal SIGPIPE, and pipes and sockets are
// non-blocking. A blocked read of anything else, such as a terminal, cannot be interrupted: its goroutine then lives
// until the next byte.
func (s *Server) ServeStdio(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	defer ndjson.IgnoreBrokenPipes()()
	r, closeInput := ndjson.Pollable(r)
	defer closeInput()
	w, closeOutput := ndjson.Pollable(w)
	defer closeOutput()
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d := s.newStdio(running, r, w)
	read := make(chan error, 1)
	go func() { read <- d.readAll() }()
	forwarded := make(chan struct{})
	go func() { defer close(forwarded); d.forwardNotifications() }()

	var err error
	select {
	case err = <-read:
		d.end(nil) // ends subscriptions, which would outlast the drain
		d.drain(ctx, s.options.DrainTimeout)
	case err = <-d.broken:
		err = fmt.Errorf("stdout closed: %w", err)
	case <-ctx.Done():
		err = ctx.Err()
		d.end(nil)
		d.drain(running, shutdownGrace)
	}
	d.end(errEnded)
	d.drain(running, cancelGrace)
	_ = d.transport.Close() // drops answers that the client has not read by now
	cancel()
	select {
	case <-forwarded:
	case <-time.After(cancelGrace): // the backend ignores its context
	}
	return err
}

// drain waits until requests have ended and their answers are written.
func (d *stdio) drain(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d.wait(ctx)
	_ = d.transport.Flush(ctx) // a write error is reported on d.broken
}

// stdio is the session of ServeStdio.
type stdio struct {
	streamSession
	transport     *ndjson.Transport
	invalidLines  int                   // in a row; used by the reader only
	broken        chan error            // the first failed write
	notifications chan *jsonrpc.Message // for the backend
}

func (s *Server) newStdio(ctx context.Context, r io.ReadCloser, w io.WriteCloser) *stdio {
	d := &stdio{broken: make(chan error, 1), notifications: make(chan *jsonrpc.Message, maxNotifications)}
	d.transport = ndjson.New(r, w, ndjson.Options{MaxLineBytes: int(s.options.MaxBody), Noise: d.handleInvalid})
	d.streamSession = streamSession{
		clientSession: s.newSession(ctx, rand.Text(), protocol.FrontStdio, requesterOf(ctx), "", d.send),
		modern:        true,
		running:       ctx,
		notify:        d.enqueue,
	}
	return d
}

// readAll handles messages until the end of the stream; io.EOF is no error.
func (d *stdio) readAll() error {
	for {
		m, err := d.transport.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.invalidLines = 0
		d.receive(&m, func() {})
	}
}

// handleInvalid answers a line that is not a message. After maxInvalidLines in a row it returns an error, which ends
// the session.
func (d *stdio) handleInvalid(line []byte, err error) error {
	d.invalidLines++
	d.server.log.Warn("a line on stdin is not a message", "bytes", len(line), "error", err)
	if d.invalidLines >= maxInvalidLines {
		return fmt.Errorf("%d lines in a row are not messages: %w", d.invalidLines, err)
	}
	_, fault := mcphttp.Decode(line) // the error codes are the same as over HTTP
	d.respond([]byte("null"), nil, fault)
	return nil
}

func (d *stdio) send(ctx context.Context, m *jsonrpc.Message) error {
	err := d.transport.Write(ctx, *m)
	if err != nil && ctx.Err() == nil {
		select {
		case d.broken <- err:
		default:
		}
	}
	return err
}

// enqueue queues a notification for forwardNotifications, so that the reader never waits for the backend.
func (d *stdio) enqueue(m *jsonrpc.Message) {
	select {
	case d.notifications <- m:
	default:
		d.server.log.Warn("too many notifications wait; one was dropped", "method", m.Method)
	}
}

func (d *stdio) forwardNotifications() {
	for {
		select {
		case m := <-d.notifications:
			if session := d.initialized(); session != nil {
				d.server.notify(d.running, session, m)
			}
		case <-d.running.Done():
			return
		}
	}
}
