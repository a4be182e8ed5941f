package pair

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Sender sends messages. A message may be lost even if there is no error.
type Sender interface {
	// Send sends a message to a run. If no run receives it and notTaken is not "", [Pairs.NotTaken] must be called with
	// notTaken. Send does not retain the message.
	Send(to wire.Address, notTaken string, message []byte) error
	MaxPayload() int // maximum size of a message in bytes
}

// outbox sends letters, and batches letters to the same run. Without batching, every message would be written on its
// own, since the connection is flushed as soon as the sending goroutine blocks, and servers and nodes would read each
// one on its own. Its methods may be called concurrently.
type outbox struct {
	sender  Sender
	batches func(to wire.Address) bool // reports whether a run reads batches
	wake    chan struct{}              // holds a token while letters are queued

	mu      sync.Mutex // guards what follows
	letters []letter
}

const (
	maxLetters  = 1024 // queued letters; beyond it, letters are sent at once
	maxTogether = 64   // letters per batch: the token, part of a subject, contains the numbers of their calls
)

// maxBatch bounds the size of a batch in bytes. A longer letter does not benefit from batching.
const maxBatch = 64 << 10

// newOutbox returns an outbox. batches reports whether a run reads batches, see [wire.Messages]. run must be called to
// send posted letters.
func newOutbox(s Sender, batches func(to wire.Address) bool) *outbox {
	return &outbox{sender: s, batches: batches, wake: make(chan struct{}, 1)}
}

// post queues a letter, to be sent soon and together with others to the same run.
func (o *outbox) post(l letter) {
	o.mu.Lock()
	full := len(o.letters) >= maxLetters
	if !full {
		o.letters = append(o.letters, l)
	}
	o.mu.Unlock()
	if full {
		_ = o.deliver(l)
		return
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run sends queued letters until ctx ends, including those that are queued at that time.
func (o *outbox) run(ctx context.Context) {
	var letters []letter
	for done := false; !done; {
		select {
		case <-o.wake:
			runtime.Gosched() // other runnable goroutines may post letters too
		case <-ctx.Done():
		}
		done = ctx.Err() != nil
		o.mu.Lock()
		letters, o.letters = o.letters, letters[:0]
		o.mu.Unlock()
		slices.SortStableFunc(letters, func(a, b letter) int {
			return cmp.Or(cmp.Compare(a.to.Node, b.to.Node), cmp.Compare(a.to.Run, b.to.Run))
		})
		for rest := letters; len(rest) > 0; {
			n := o.together(rest)
			_ = o.deliver(rest[:n]...)
			rest = rest[n:]
		}
		clear(letters)
	}
}

// together returns how many letters, from the first, fit in one message.
func (o *outbox) together(letters []letter) int {
	to, n := letters[0].to, 1
	if !o.batches(to) {
		return n
	}
	room := min(maxBatch, o.sender.MaxPayload()) - letters[0].size()
	for ; n < min(len(letters), maxTogether) && letters[n].to == to; n++ {
		if room -= letters[n].size(); room < 0 {
			break
		}
	}
	return n
}

// deliver sends letters to one run in one message.
func (o *outbox) deliver(letters ...letter) error {
	message := letters[0].message
	if len(letters) > 1 {
		message = buffers.Get().(*[]byte)
		*message = (*message)[:0]
		for _, l := range letters {
			*message = wire.AppendToBatch(*message, *l.message)
			buffers.Put(l.message)
		}
	}
	err := o.sender.Send(letters[0].to, token(letters), *message)
	buffers.Put(message)
	for _, l := range letters {
		if l.sent != nil {
			l.sent(err)
		}
	}
	return err
}

// letter is a message to a run. It can be sent once.
type letter struct {
	sent func(error) // called with the error of the sender; may be nil

	to      wire.Address
	kind    string
	n       uint64  // number of the call
	message *[]byte // from buffers
}

// buffers holds buffers for messages. A buffer returns to the pool once its message is sent.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// newLetter encodes a letter. It fails like [wire.Encode].
func newLetter(to wire.Address, h *wire.Head, body []byte) (letter, error) {
	buffer := buffers.Get().(*[]byte)
	m, err := wire.Append((*buffer)[:0], h, body)
	if err != nil {
		buffers.Put(buffer)
		return letter{}, err
	}
	*buffer = m
	return letter{to: to, kind: h.Kind, n: h.N, message: buffer}, nil
}

// size returns the maximum size of the letter in a batch, in bytes.
func (l letter) size() int { return len(*l.message) + wire.BatchRoom }

// ofCalls is the first part of the notTaken tokens of letters.
const ofCalls = "calls"

// token returns the notTaken token of a message, such as "calls_41-42_NODE_RUN" with the numbers of two calls. A pulse
// has the number 0. token returns "" if no letter needs to be reported.
func token(letters []letter) string {
	var calls []byte
	for _, l := range letters {
		if l.kind == wire.Call || l.kind == wire.Pulse {
			if len(calls) > 0 {
				calls = append(calls, '-')
			}
			calls = strconv.AppendUint(calls, l.n, 10)
		}
	}
	if calls == nil {
		return ""
	}
	to := letters[0].to
	return ofCalls + "_" + string(calls) + "_" + to.Node + "_" + to.Run
}

// readToken returns the run that a message was sent to, and the calls in it. It reports false for a token of
// another sender.
func readToken(notTaken string) (to wire.Address, calls []uint64, ok bool) {
	parts := strings.Split(notTaken, "_")
	if len(parts) != 4 || parts[0] != ofCalls {
		return wire.Address{}, nil, false
	}
	for text := range strings.SplitSeq(parts[1], "-") {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			calls = append(calls, n)
		}
	}
	return wire.Address{Node: parts[2], Run: parts[3]}, calls, true
}
