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

// outbox sends the calls and results of many goroutines together, those for one run in one message. A
// connection is written to as soon as the goroutine with a message has nothing else to do: of many calls,
// each message would be written alone, and read alone by the server and by the other node.
type outbox struct {
	wake chan struct{} // holds a token while there are letters

	mu      sync.Mutex // guards what follows
	letters []letter
}

// letter is a message that waits to be sent.
type letter struct {
	to      wire.Address
	kind    string
	n       uint64      // of its call
	message *[]byte     // of buffers
	sent    func(error) // nil: nobody wants to know
}

const (
	few        = 2    // calls in flight, up to which messages are not sent together
	maxLetters = 1024 // that wait, beyond which a message is sent by its own goroutine

	maxTogether = 64       // letters in one message: the subject of the server's answer names their calls
	maxBatch    = 64 << 10 // bytes of such a message
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

// sendLetters sends letters until ctx ends, and those that were put before.
func (p *Pairs) sendLetters(ctx context.Context) {
	o := &p.outbox
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
		slices.SortStableFunc(letters, func(a, b letter) int {
			return cmp.Or(cmp.Compare(a.to.Node, b.to.Node), cmp.Compare(a.to.Run, b.to.Run))
		})
		for rest := letters; len(rest) > 0; {
			n := p.together(rest)
			_ = deliver(p.o.Sender, rest[:n]...)
			rest = rest[n:]
		}
		clear(letters)
	}
}

// together returns how many of the first letters go in one message.
func (p *Pairs) together(letters []letter) int {
	to, n := letters[0].to, 1
	if !p.o.Batches(to) {
		return n
	}
	room := min(maxBatch, p.o.Sender.MaxPayload()) - letters[0].size()
	for ; n < min(len(letters), maxTogether) && letters[n].to == to; n++ {
		if room -= letters[n].size(); room < 0 {
			break
		}
	}
	return n
}

func (l letter) size() int { return len(*l.message) + wire.BatchRoom }

// deliver sends letters to one run as one message.
func deliver(s Sender, letters ...letter) error {
	message := letters[0].message
	if len(letters) > 1 {
		message = buffers.Get().(*[]byte)
		*message = (*message)[:0]
		for _, l := range letters {
			*message = wire.AppendToBatch(*message, *l.message)
			buffers.Put(l.message)
		}
	}
	err := s.Send(letters[0].to, token(letters), *message)
	buffers.Put(message)
	for _, l := range letters {
		if l.sent != nil {
			l.sent(err)
		}
	}
	return err
}

// ofPairs begins what a sender is given as notTaken.
const ofPairs = "calls"

// token is what NotTaken is called with for letters to a run: "calls_41-42_NODE_RUN", where a pulse is
// call 0; "" for letters that would not be missed.
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
	return ofPairs + "_" + string(calls) + "_" + to.Node + "_" + to.Run
}

// readToken returns the calls and the run of a token. It reports false for one of another sender.
func readToken(what string) (calls []uint64, to wire.Address, ok bool) {
	parts := strings.Split(what, "_")
	if len(parts) != 4 || parts[0] != ofPairs {
		return nil, wire.Address{}, false
	}
	for text := range strings.SplitSeq(parts[1], "-") {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			calls = append(calls, n)
		}
	}
	return calls, wire.Address{Node: parts[2], Run: parts[3]}, true
}
