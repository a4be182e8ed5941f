package jsonrpc

import (
	"context"
	"encoding/json"
	"time"
)

// Options configures a [Conn]. The zero value serves a pure caller: it refuses
// the peer's requests and drops its notifications.
type Options struct {
	// Handle answers the peer's requests that belong to no call in flight. An
	// [*Error] is sent as it is, any other error as an internal one. ctx ends with
	// the conversation. Nil: method not found.
	Handle func(ctx context.Context, req *Message) (json.RawMessage, error)

	// MaxHandlers bounds the requests being handled at once, 0 means 64; those beyond
	// are answered with CodeOverloaded.
	MaxHandlers int

	// Inline runs Handle on the reader instead of in a goroutine of its own, and
	// sends the answers to requests that arrived together in one write: several times
	// faster for handlers that answer at once. A handler that takes longer than a
	// millisecond or two keeps its goroutine, and another takes over the reading.
	// req is valid until it returns, the bytes it refers to for as long as they are used.
	Inline bool

	// Notified takes the peer's notifications that belong to no call, one at a time,
	// in order, off the reader. At most 1024 wait; those beyond are dropped and
	// counted. Nil drops them all.
	Notified func(ctx context.Context, n *Message)

	// Token names the call in flight ([CallOptions].Token) that an incoming request or
	// notification belongs to, "" none. It runs on whichever goroutine reads, which
	// may be a caller's, and must be quick. Nil: none does.
	Token func(m *Message) string

	// Loose reports whether an incoming request or notification that names no call is
	// all the same about one: it goes to the call whose stream it came on, else to the
	// newest call in flight, provided that all of them, and those abandoned within the
	// last minute, have the same [CallOptions].Owner. One that is not loose, and names
	// no call by Token, belongs to none. Nil: none is loose.
	Loose func(m *Message) bool

	// Abandoned is told, in order and off the reader, of each call that ended
	// unanswered after its frame was written: by its caller's ctx or by ErrTimeout.
	Abandoned func(ctx context.Context, id uint64, method string, cause error)

	// Drain is how long handlers may go on, and answer, after the peer closed its end
	// (io.EOF). 0: their ctx ends at once.
	Drain time.Duration

	// FirstID is the id of the first request; ids count up from it.
	FirstID uint64

	// Bare is the dialect without the "jsonrpc" member: it is not written, and
	// answers need not carry it.
	Bare bool
}

const (
	defaultHandlers = 64
	maxLane         = 1024 // jobs waiting in a lane
	maxInbox        = 256  // messages waiting for one call
	maxAbandoned    = 4096 // abandoned ids remembered

	// What is neither an answer owed, nor a request of a call, nor one that is handled
	// inline is read at this many a second in the long run, and this many at once: a
	// peer that floods is held up by its own pipe, and costs its neighbours little. A
	// long message counts as several.
	asideRate  = 10_000
	asideBurst = 2 * maxLane
	asideBytes = 2 << 10
	asidePause = 10 * time.Millisecond // at least, so that pauses are rare
)

// Stats counts what happened on a conversation.
type Stats struct {
	InFlight  int    // calls written and not answered, the abandoned ones included
	Abandoned int    // of these, calls that nobody waits for any more
	Late      uint64 // answers to abandoned calls
	Duplicate uint64 // answers to calls that had been answered
	Unknown   uint64 // answers to ids that were never sent
	Invalid   uint64 // answers that could not be used
	Dropped   uint64 // notifications and refusals lost to a full queue
	Noise     uint64 // lines that were not JSON-RPC
	BytesIn   uint64
	BytesOut  uint64
}
