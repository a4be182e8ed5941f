package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/exthost/exthost/internal/jsonrpc"
	"github.com/exthost/exthost/internal/jsonrpc/ndjson"
)

const (
	maxNoise = 64          // lines in a row that are no messages
	maxTold  = 256         // notifications that wait for the backend
	stopWait = time.Second // for requests to end once they are cancelled
)

// ServeStdio serves one client over lines of JSON, both eras on the one stream.
// It blocks until r ends, which is the client's way to leave and no error:
// requests in flight may then finish within DrainTimeout. When w fails or ctx
// ends they are cancelled at once, and the error says which. r and w are closed.
//
// While it runs, a write to a closed stdout is an error and not the death by
// SIGPIPE that it is elsewhere, and pipes and sockets are in non-blocking mode. A
// read of anything else that blocks, such as a terminal, cannot be interrupted:
// its goroutine then lives until the next byte.
func (s *Server) ServeStdio(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error {
	defer ignoreBrokenPipes()()
	r, closeInput := ndjson.Pollable(r)
	defer closeInput()
	w, closeOutput := ndjson.Pollable(w)
	defer closeOutput()
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	d := s.newStdio(running, r, w)
	read := make(chan error, 1)
	go func() { read <- d.readAll() }()
	told := make(chan struct{})
	go func() { defer close(told); d.tellAll() }()

	var err error
	select {
	case err = <-read:
		d.end(nil) // subscriptions, for nothing more can come of them
		d.drain(ctx, s.options.DrainTimeout)
	case err = <-d.broken:
		err = fmt.Errorf("stdout closed: %w", err)
	case <-ctx.Done():
		err = ctx.Err()
	}
	d.end(errEnded)
	d.drain(context.WithoutCancel(ctx), stopWait)
	_ = d.transport.Close() // a client that has not read yet does not read any more
	cancel()
	select {
	case <-told:
	case <-time.After(stopWait): // a backend that ignores its context
	}
	return err
}

// drain waits for requests to end and for the client to take their answers.
func (d *stdio) drain(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	d.wait(ctx)
	_ = d.transport.Flush(ctx) // the same error meets the next write
}

// stdio is the conversation of ServeStdio.
type stdio struct {
	duplex
	transport *ndjson.Transport
	noise     int                   // lines in a row that were no messages; the reader's
	broken    chan error            // the first failure to write
	told      chan *jsonrpc.Message // notifications for the backend
}

func (s *Server) newStdio(ctx context.Context, r io.ReadCloser, w io.WriteCloser) *stdio {
	d := &stdio{broken: make(chan error, 1), told: make(chan *jsonrpc.Message, maxTold)}
	d.transport = ndjson.New(r, w, ndjson.Options{MaxLineBytes: int(s.options.MaxBody), Noise: d.hearNoise})
	d.duplex = duplex{conversation: s.newConversation(ctx, rand.Text(), visit{}, "", d.send), stateless: true, running: ctx, tell: d.queue}
	return d
}

// readAll takes messages until there are no more; their end is no error.
func (d *stdio) readAll() error {
	for {
		m, err := d.transport.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.noise = 0
		d.receive(&m, func() {})
	}
}

// hearNoise answers a line that is no message and gives up on a client that sends
// nothing else.
func (d *stdio) hearNoise(line []byte, err error) error {
	d.noise++
	d.server.log.Warn("a line on stdin is not a message", "bytes", len(line), "error", err)
	if d.noise >= maxNoise {
		return fmt.Errorf("%d lines in a row are not messages: %w", d.noise, err)
	}
	parse := &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "not a JSON-RPC message: " + err.Error()}
	d.respond([]byte("null"), nil, parse)
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

// queue hands a notification to tellAll, so that the reader waits for nobody.
func (d *stdio) queue(m *jsonrpc.Message) {
	select {
	case d.told <- m:
	default:
		d.server.log.Warn("too many notifications wait; one was dropped", "method", m.Method)
	}
}

func (d *stdio) tellAll() {
	for {
		select {
		case m := <-d.told:
			if session := d.opened(); session != nil {
				d.server.tell(d.running, session, m)
			}
		case <-d.running.Done():
			return
		}
	}
}

// ignoreBrokenPipes keeps a write to a closed stdout from killing the process
// until the function it returns is called.
func ignoreBrokenPipes() (restore func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
