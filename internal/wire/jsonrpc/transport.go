package jsonrpc

import (
	"context"
	"errors"
)

// Transport moves whole messages.
type Transport interface {
	// Read returns the next message. One goroutine at a time calls it.
	Read() (Message, error)
	// Write sends m. It is safe for concurrent use, may block until ctx ends, and keeps no part of m. [Written]
	// reports for its error whether the peer may have seen m.
	Write(ctx context.Context, m Message) error
	// Close unblocks Read and Write and is idempotent.
	Close() error
}

// Awaiter is a [Transport] that can wait for input before Read is called.
type Awaiter interface {
	// Await returns when Read may have something to return. Idle connections wait in Await, because
	// Read needs twice as much stack.
	Await()
}

// Interrupter is a [Transport] whose Read can be interrupted if CanInterrupt returns true. It allows a [Conn] to let
// callers read their own answers.
type Interrupter interface {
	CanInterrupt() bool
	// Interrupt makes the current or next Read return ErrInterrupted. Read may be called again afterwards.
	Interrupt()
}

// ErrInterrupted is returned by Read of an [Interrupter] after Interrupt.
var ErrInterrupted = errors.New("jsonrpc: read interrupted")

// Batcher is a [Transport] that can hold answers back to write several at once.
type Batcher interface {
	// WriteLater is Write for the goroutine that calls Read. It may hold m back until Read would wait for input, or
	// until FlushHeld is called.
	WriteLater(ctx context.Context, m Message) error
	FlushHeld()
}

// Traffic counts bytes, lines that are not JSON-RPC, and signs of life. A [Transport] with a method Traffic adds
// these counts to [Stats].
type Traffic struct{ Noise, Signs, BytesIn, BytesOut uint64 }
