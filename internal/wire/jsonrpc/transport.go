package jsonrpc

import (
	"context"
	"errors"
)

// Transport moves whole messages.
type Transport interface {
	// Read returns the next message. One goroutine at a time calls it.
	Read() (Message, error)
	// Write sends m. Many goroutines call it. It may block until ctx ends and keeps no
	// part of m. For its error, [Written] reports whether the peer may have seen m.
	Write(ctx context.Context, m Message) error
	// Close unblocks Read and Write and is idempotent.
	Close() error
}

// Awaiter is a [Transport] that can wait for input without a message to read into.
type Awaiter interface {
	// Await returns when Read may have something to return. Most connections wait here most
	// of the time, so it needs little stack: Read needs twice as much.
	Await()
}

// Interrupter is a [Transport] whose Read can be interrupted if CanInterrupt returns
// true. With it a [Conn] lets callers read their own answers.
type Interrupter interface {
	CanInterrupt() bool
	// Interrupt makes Read return ErrInterrupted. Read may be called again afterwards.
	// If no Read runs, the next one is interrupted.
	Interrupt()
}

// ErrInterrupted is returned by Read of an [Interrupter] after Interrupt.
var ErrInterrupted = errors.New("jsonrpc: read interrupted")

// Batcher is a [Transport] that can hold answers back, to write several at once.
type Batcher interface {
	// WriteLater is Write for the reading goroutine. m may wait until Read has no more
	// input or FlushHeld is called.
	WriteLater(ctx context.Context, m Message) error
	FlushHeld()
}

// Traffic counts the bytes of a transport, the lines that are not JSON-RPC, and the signs of
// life; see [Stats], to which a [Transport] with a method Traffic adds these counts.
type Traffic struct{ Noise, Signs, BytesIn, BytesOut uint64 }
