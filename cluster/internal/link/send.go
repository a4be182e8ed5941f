package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/exthost/exthost/cluster/internal/natsclient"
	"github.com/exthost/exthost/cluster/internal/wire"
)

// Send sends a message to a run. notTaken is one token of a subject, with which Options.NotTaken is called if the run
// does not exist; "": no report. [ErrUnsent] means that the run never gets the message; after any other error it may
// get it. Without an error the message may still be lost.
func (l *Link) Send(to wire.Address, notTaken string, message []byte) error {
	s := l.o.Subjects
	if notTaken != "" {
		notTaken = s.NoResponder(l.o.Self, notTaken)
	}
	return l.publish(s.To(to, l.o.Self.Node), notTaken, message)
}

// Broadcast sends a message to all other nodes. It fails like Send.
func (l *Link) Broadcast(message []byte) error {
	return l.publish(l.o.Subjects.All(l.o.Self.Node), "", message)
}

// Any sends a message to one other node, which the server chooses. It fails like Send.
func (l *Link) Any(message []byte) error {
	return l.publish(l.o.Subjects.Any(l.o.Self.Node), "", message)
}

func (l *Link) publish(subject, reply string, message []byte) error {
	err := l.conn.Load().PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: message})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes, and the server of the cluster takes %d; raise its max_payload", ErrUnsent,
			len(message), l.MaxPayload())
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%w: there is no connection to the cluster", ErrUnsent)
	case natsclient.IsUnsent(err):
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return err
}

// MaxPayload returns the maximum size of a message in bytes; 64 KiB before the first connection.
func (l *Link) MaxPayload() int {
	if n := l.conn.Load().MaxPayload(); n > 0 {
		return int(n)
	}
	return 64 << 10
}

// Connected reports whether the link is connected.
func (l *Link) Connected() bool { return l.conn.Load().IsConnected() }

// Server returns the address of the connected server without a password, or "" while disconnected.
func (l *Link) Server() string { return l.conn.Load().ConnectedUrlRedacted() }

// RTT measures the round trip to the server.
func (l *Link) RTT(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, flushBound) // nats requires a deadline
	defer cancel()
	start := time.Now()
	err := l.conn.Load().FlushWithContext(ctx)
	return time.Since(start), err
}

// Cut breaks the connection at once and for good, without waiting for pending writes. Call Close afterwards.
func (l *Link) Cut() { l.cut() }

// Close flushes and disconnects. It returns after the last callback, or when ctx ends. It must not be called
// from a callback of the link. It may be called again.
func (l *Link) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.Cut)() // a write to a server that does not read blocks until the connection is cut
	l.mu.Lock()
	l.closed = true
	c := l.conn.Load()
	l.mu.Unlock()
	if c.IsConnected() {
		flush, cancel := context.WithTimeout(ctx, flushBound)
		_ = c.FlushWithContext(flush)
		cancel()
	}
	c.Close()
	l.Cut()
	handled := l.tasks.Close()
	for _, done := range []<-chan struct{}{c.over, handled} {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("the connection to the cluster has not ended in time: a message is still handled, or "+
				"the server reads nothing: %w", ctx.Err())
		}
	}
	return nil
}

// Ask sends a request to the servers, such as to JetStream or to a hub, and returns the answer. [ErrUnsent]
// means that nobody gets the request; after any other error somebody may have received it.
func (l *Link) Ask(ctx context.Context, subject string, header map[string]string, data []byte) ([]byte, error) {
	m := &nats.Msg{Subject: subject, Data: data, Header: make(nats.Header, len(header))}
	for k, v := range header {
		m.Header[k] = []string{v}
	}
	answer, err := l.conn.Load().RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		return answer.Data, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: no server of the cluster takes %s at the moment", ErrUnsent, subject)
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return nil, fmt.Errorf("%w: there is no connection to the cluster", ErrUnsent)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer about %s: %w", subject, context.Cause(ctx))
	}
	return nil, fmt.Errorf("asking about %s: %w", subject, err)
}
