// Package outbox sends messages about calls to other runs, and batches messages to the same run. Without
// batching, every message would be written on its own, since the connection is flushed as soon as the sending
// goroutine blocks, and servers and nodes would read each one on its own.
package outbox

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Sender sends messages. A message may be lost even if there is no error.
type Sender interface {
	// Send sends a message to a run. notTaken, if not "", is reported back for a message that no run
	// received, see [ReadToken]. Send does not retain the message.
	Send(to wire.Address, notTaken string, message []byte) error
	MaxPayload() int // maximum size of a message in bytes
}

// Outbox sends letters. Its methods may be called concurrently.
type Outbox struct {
	sender  Sender
	batches func(to wire.Address) bool // reports whether a run reads batches
	wake    chan struct{}              // holds a token while letters are queued

	mu      sync.Mutex // guards what follows
	letters []Letter
}

const (
	maxLetters  = 1024 // queued letters; beyond it, letters are sent at once
	maxTogether = 64   // letters per batch: the subject of the server's reply contains the numbers of their calls
)

// MaxBatch bounds the size of a batch in bytes. A longer letter does not benefit from batching.
const MaxBatch = 64 << 10

// New returns an outbox. batches reports whether a run reads batches, see [wire.Messages]. Run must be called
// to send posted letters.
func New(s Sender, batches func(to wire.Address) bool) *Outbox {
	return &Outbox{sender: s, batches: batches, wake: make(chan struct{}, 1)}
}

// Send sends a letter at once, on its own.
func (o *Outbox) Send(l Letter) error { return o.deliver(l) }

// Post queues a letter, to be sent soon and with others to the same run.
func (o *Outbox) Post(l Letter) {
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

// Run sends queued letters until ctx ends, including those that are queued at that time.
func (o *Outbox) Run(ctx context.Context) {
	var letters []Letter
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
		slices.SortStableFunc(letters, func(a, b Letter) int {
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
func (o *Outbox) together(letters []Letter) int {
	to, n := letters[0].to, 1
	if !o.batches(to) {
		return n
	}
	room := min(MaxBatch, o.sender.MaxPayload()) - letters[0].size()
	for ; n < min(len(letters), maxTogether) && letters[n].to == to; n++ {
		if room -= letters[n].size(); room < 0 {
			break
		}
	}
	return n
}

// deliver sends letters to one run in one message.
func (o *Outbox) deliver(letters ...Letter) error {
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
		if l.Sent != nil {
			l.Sent(err)
		}
	}
	return err
}
