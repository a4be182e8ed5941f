package jsonrpc

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"
)

// Options configures a [Conn]. The zero value is for pure callers: it refuses the peer's requests and drops its
// notifications.
type Options struct {
	// Handle answers the peer's requests that belong to no call, by its result or by req.Encoder, which it sets. An
	// [*Error] is sent unchanged, any other error as an internal error. ctx ends with the connection. Nil: method not
	// found.
	Handle func(ctx context.Context, req *Message) (json.RawMessage, error)

	// MaxHandlers is the max number of concurrent handlers; 0 means 64. Further requests are
	// refused with CodeOverloaded. So are all requests while about 64 MiB of requests and
	// notifications are queued or in progress, including those that belong to calls.
	MaxHandlers int

	// Held limits these bytes to 256 MiB in total for all connections with the same Held. Nil: no
	// common limit.
	Held *Held

	// Inline runs Handle on the reader instead of in its own goroutine, and writes the answers to
	// requests that arrived together in one write. This is several times faster for quick handlers.
	// If a handler takes longer than a millisecond or two, another goroutine becomes the reader.
	// Handle may use req only until Handle returns, but may keep the byte slices of req.
	Inline bool

	// Notified handles the peer's notifications that belong to no call, one at a time and in order, on its own
	// goroutine. At most 1024 of them or about 16 MiB are queued; further ones are dropped and counted. If
	// Notified is nil, all are dropped.
	Notified func(ctx context.Context, n *Message)

	// Token returns the [CallOptions].Token of the call that an incoming request or notification belongs to, or "".
	// It runs on the reading goroutine, possibly a caller's, and must be quick. Nil: no message belongs to a call.
	Token func(m *Message) string

	// Loose reports whether an incoming request or notification without a Token still belongs to a call: the one on
	// whose stream it came ([Message].Of) or, without a stream, the newest call in flight, if all calls in flight and
	// all calls abandoned within the last minute have the same [CallOptions].Owner. Nil: none does.
	Loose func(m *Message) bool

	// Cancels returns the id of the peer's request that a notification cancels, or nil. The ctx of
	// that request's handler ends, and the request gets no response. Cancels runs on the reading
	// goroutine and must be quick. Nil: no notification cancels a request.
	Cancels func(m *Message) json.RawMessage

	// Abandoned is called for each call whose frame was written and that ended without an answer,
	// because of the caller's ctx, whose cause it gets, or a timeout. The calls of Abandoned are in order and on a
	// goroutine of their own.
	Abandoned func(ctx context.Context, id uint64, method string, cause error)

	// Stray is called for each answer without a waiting call, except late answers to abandoned
	// calls, and for each error with id null. taken reports that such an error was used as the
	// answer to the call on whose stream it came or, without a stream, to the only call in flight.
	// Stray runs on the reading goroutine and must be quick. It keeps no part of m, whose memory may be reused. Nil
	// ignores these answers.
	Stray func(m *Message, taken bool)

	// Drain is how long handlers may keep running, and send their answers, after the peer closed
	// its end (io.EOF). 0: the ctx of handlers ends at once.
	Drain time.Duration

	// FirstID is the id of the first request. Each further id is one higher.
	FirstID uint64

	// Bare is for peers without the "jsonrpc" member: frames are written without it and need not have it. The message
	// is then all that an error says, and must not be missing.
	Bare bool
}

const (
	defaultHandlers = 64
	maxQueue        = 1024     // max jobs in a queue
	maxInbox        = 256      // max messages of one call, queued or in progress
	maxWaiting      = 16 << 20 // max bytes in a queue or for one call; one more message may exceed it
	// Max bytes of the peer's requests and notifications in progress; one more message may exceed it.
	maxHeld      = 64 << 20
	maxHeldByAll = 4 * maxHeld // the same for all connections with the same Held
	maxAbandoned = 4096        // max ids of abandoned calls remembered

	// Unsolicited messages are all messages except answers to calls, requests that belong to a
	// call, and inline requests. Their rate is limited, so that a flooding peer fills its pipe and
	// blocks itself instead of the host. A long message counts as several.
	unsolicitedRate  = 10_000
	unsolicitedBurst = 2 * maxQueue
	unsolicitedBytes = 2 << 10
	minPause         = 10 * time.Millisecond // shorter pauses accumulate, so that pauses are rare
)

// Held counts the bytes of requests and notifications in progress on several connections. The zero value is ready to
// use.
type Held struct{ bytes atomic.Int64 }

// take reserves bytes, and returns false if there is no room.
func (h *Held) take(bytes int) bool {
	if h.bytes.Add(int64(bytes))-int64(bytes) < maxHeldByAll {
		return true
	}
	h.bytes.Add(-int64(bytes))
	return false
}

// Stats are the counts of a connection.
type Stats struct {
	InFlight  int    // calls written and not answered, including Abandoned
	Abandoned int    // calls that ended without an answer so far
	Answered  uint64 // answers to calls, including Late
	Late      uint64 // answers to abandoned calls
	Duplicate uint64 // answers to calls that were already answered
	Unknown   uint64 // answers with an id never sent
	Invalid   uint64 // unusable answers
	Dropped   uint64 // notifications and refusals lost to a full queue
	Noise     uint64 // lines that were not JSON-RPC
	Signs     uint64 // signs of life: messages read, and reads in the middle of one
	BytesIn   uint64
	BytesOut  uint64

	// OutOfOrder is set once a call was answered before an earlier one: the peer handles calls concurrently.
	OutOfOrder bool
}
