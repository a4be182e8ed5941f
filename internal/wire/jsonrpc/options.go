package jsonrpc

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"
)

// Options configures a [Conn]. The zero value is for a pure caller: it refuses the
// requests of the peer and drops its notifications.
type Options struct {
	// Handle answers the requests of the peer that belong to no call in flight. An
	// [*Error] is sent unchanged, any other error as an internal error. ctx ends with
	// the connection. Nil: method not found.
	Handle func(ctx context.Context, req *Message) (json.RawMessage, error)

	// MaxHandlers bounds the handlers that run at once; 0 means 64. Requests beyond that
	// are refused with CodeOverloaded, as are those beyond about 64 MiB of requests and
	// notifications that wait or are being handled, those of calls included.
	MaxHandlers int

	// Held bounds the same bytes of all connections that have it, at 256 MiB. Nil: of this one alone.
	Held *Held

	// Inline runs Handle on the reader instead of in its own goroutine, and writes the
	// answers to requests that arrived together at once. This is several times faster
	// for handlers that answer at once. If a handler takes longer than a millisecond or
	// two, another goroutine becomes the reader. Handle may use req only until it
	// returns; it may keep the byte slices in req.
	Inline bool

	// Notified takes the notifications of the peer that belong to no call, one at a
	// time and in order, on its own goroutine. At most 1024 wait, and about 16 MiB;
	// further ones are dropped and counted. Nil drops all.
	Notified func(ctx context.Context, n *Message)

	// Token returns the [CallOptions].Token of the call that an incoming request or
	// notification belongs to, "" for none. It runs on the reading goroutine, which may
	// be that of a caller, and must be quick. Nil: no message belongs to a call.
	Token func(m *Message) string

	// Loose reports whether an incoming request or notification without a Token still
	// belongs to a call. Such a message goes to the call on whose stream it came
	// ([Message].Of). Without a stream it goes to the newest call in flight, if all
	// calls in flight and all calls abandoned within the last minute have the same
	// [CallOptions].Owner. Nil: no message does.
	Loose func(m *Message) bool

	// Cancels returns the id of the request of the peer that a notification cancels, nil if it
	// is another notification. The ctx of that request's handler ends, and the request gets no
	// response. It runs on the reading goroutine and must be quick. Nil: none cancels.
	Cancels func(m *Message) json.RawMessage

	// Abandoned is called for each call that ended without an answer after its frame was
	// written, by the caller's ctx or by ErrTimeout: in order, on its own goroutine.
	Abandoned func(ctx context.Context, id uint64, method string, cause error)

	// Stray is called on the reading goroutine for each answer that no call waits for,
	// except for late answers to abandoned calls. It is also called for each error whose id is
	// null: taken says that it is the answer to the call on whose stream it came or, without a
	// stream, to the only call that the peer has to answer. It must be quick. Nil: nothing.
	Stray func(m *Message, taken bool)

	// Drain is the time for which handlers may go on, and answer, after the peer closed
	// its end (io.EOF). 0: their ctx ends at once.
	Drain time.Duration

	// FirstID is the id of the first request. Each further id is one higher.
	FirstID uint64

	// Bare is for peers without the "jsonrpc" member: requests are written without it,
	// and incoming messages need not have it.
	Bare bool
}

const (
	defaultHandlers = 64
	maxQueue        = 1024     // jobs waiting in a queue
	maxInbox        = 256      // messages waiting for one call, and its open questions
	maxWaiting      = 16 << 20 // bytes waiting in a queue or for one call, beyond which no message is added
	// bytes of the peer's requests and notifications in hand, beyond which no message is added
	maxHeld      = 64 << 20
	maxHeldByAll = 4 * maxHeld // the same of connections with one Held
	maxAbandoned = 4096        // abandoned ids remembered

	// Unsolicited messages are all but answers to calls, requests that belong to a
	// call, and requests that are handled inline. Their rate is limited, so that the
	// pipe of a flooding peer fills up and blocks that peer instead of the host. A long
	// message counts as several.
	unsolicitedRate  = 10_000
	unsolicitedBurst = 2 * maxQueue
	unsolicitedBytes = 2 << 10
	minPause         = 10 * time.Millisecond // shorter pauses are put off, so that pauses are rare
)

// Held counts the bytes of the requests and notifications that several connections have in hand. Its zero
// value is ready.
type Held struct{ bytes atomic.Int64 }

// take counts so many bytes and reports whether there was room.
func (h *Held) take(bytes int) bool {
	if h.bytes.Add(int64(bytes))-int64(bytes) < maxHeldByAll {
		return true
	}
	h.bytes.Add(-int64(bytes))
	return false
}

// Stats counts the events of a connection.
type Stats struct {
	InFlight  int    // calls written and not answered, including abandoned ones
	Abandoned int    // of these, abandoned calls
	Answered  uint64 // answers to calls, abandoned ones included
	Late      uint64 // answers to abandoned calls
	Duplicate uint64 // answers to calls that were answered before
	Unknown   uint64 // answers with an id that was never sent
	Invalid   uint64 // answers that could not be used
	Dropped   uint64 // notifications and refusals lost to a full queue
	Noise     uint64 // lines that were not JSON-RPC
	Signs     uint64 // of life: messages that were read, and reads of the middle of one
	BytesIn   uint64
	BytesOut  uint64

	// OutOfOrder says that a call was answered before an earlier one: the peer works on
	// several calls at once.
	OutOfOrder bool
}
