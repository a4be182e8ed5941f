// Package outbox sends messages about calls to the runs of other nodes. Those of many goroutines to one run
// go in one message: a connection is written to as soon as the goroutine with a message has nothing else to
// do, so of many calls each message would be written alone, and read alone by the server and by the other
// node.
package outbox

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Sender sends messages. A message that it returns no error for may still be lost.
type Sender interface {
	// Send sends a message to a run. notTaken, if not "", is what [ReadToken] reads of a message that
	// no run took. The sender keeps nothing of the message.
	Send(to wire.Address, notTaken string, message []byte) error
	MaxPayload() int // the longest message, in bytes
}

// Outbox sends letters. Its methods may be called by many goroutines at once.
type Outbox struct {
	sender  Sender
	batches func(to wire.Address) bool
	wake    chan struct{} // holds a token while there are letters

	mu      sync.Mutex // guards what follows
	letters []Letter
}

const (
	maxLetters  = 1024 // that wait, beyond which one is sent alone
	maxTogether = 64   // in one message: the subject of the server's answer names their calls
)

// MaxBatch bounds the bytes of letters that go in one message. A letter with a longer body gains nothing
// by waiting for others.
const MaxBatch = 64 << 10

// New returns an outbox. batches reports whether a run reads batches, see [wire.Messages]. Run sends
// what is posted.
func New(s Sender, batches func(to wire.Address) bool) *Outbox {
	return &Outbox{sender: s, batches: batches, wake: make(chan struct{}, 1)}
}

// Send sends a letter alone, now, and returns the error of the sender.
func (o *Outbox) Send(l Letter) error { return o.deliver(l) }

// Post has a letter be sent soon, with others to the same run.
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

// Run sends letters until ctx ends, and those that were posted before.
func (o *Outbox) Run(ctx context.Context) {
	var letters []Letter
	for done := false; !done; {
		select {
		case <-o.wake:
			runtime.Gosched() // others that can run have something to send too
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

// together returns how many of the first letters go in one message.
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

// deliver sends letters to one run as one message.
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
