package pair

import (
	"context"
	"runtime"
	"sync"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// outbox sends the calls and results of many goroutines together. A connection is written to as soon as
// the goroutine with a message has nothing else to do: of many calls, each message would be written
// alone, and read alone by the server and by the other node.
type outbox struct {
	wake chan struct{} // holds a token while there are letters

	mu      sync.Mutex // guards what follows
	letters []letter
}

// letter is a message that waits to be sent.
type letter struct {
	to       wire.Address
	notTaken string
	message  *[]byte     // of buffers
	sent     func(error) // nil: nobody wants to know
}

const (
	few        = 2    // calls in flight, up to which messages are not sent together
	maxLetters = 1024 // that wait, beyond which a message is sent by its own goroutine
)

// put has a letter be sent. It reports false when too many wait.
func (o *outbox) put(l letter) bool {
	o.mu.Lock()
	full := len(o.letters) >= maxLetters
	if !full {
		o.letters = append(o.letters, l)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return !full
}

// run sends letters until ctx ends, and those that were put before.
func (o *outbox) run(ctx context.Context, s Sender) {
	var letters []letter
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
		for _, l := range letters {
			_ = l.send(s)
		}
		clear(letters)
	}
}

func (l letter) send(s Sender) error {
	err := s.Send(l.to, l.notTaken, *l.message)
	buffers.Put(l.message)
	if l.sent != nil {
		l.sent(err)
	}
	return err
}
