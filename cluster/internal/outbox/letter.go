package outbox

import (
	"strconv"
	"strings"
	"sync"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Letter is a message to a run, which is sent once.
type Letter struct {
	Sent func(error) // takes the error of the sender; nil: nobody wants to know

	to      wire.Address
	kind    string
	n       uint64  // of its call
	message *[]byte // of buffers
}

// buffers are for messages, which are of some length while they are sent.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Write returns a letter. Its errors are those of [wire.Encode].
func Write(to wire.Address, h *wire.Head, body []byte) (Letter, error) {
	buffer := buffers.Get().(*[]byte)
	m, err := wire.Append((*buffer)[:0], h, body)
	if err != nil {
		buffers.Put(buffer)
		return Letter{}, err
	}
	*buffer = m
	return Letter{to: to, kind: h.Kind, n: h.N, message: buffer}, nil
}

// size bounds the bytes of a letter in a batch.
func (l Letter) size() int { return len(*l.message) + wire.BatchRoom }

// ofCalls begins what a sender is given as notTaken.
const ofCalls = "calls"

// token says which letters a message has: "calls_41-42_NODE_RUN", where a pulse is call 0; "" for letters
// that would not be missed.
func token(letters []Letter) string {
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

// ReadToken returns the run that a message was sent to, and the calls of its letters. It reports false for
// the token of another sender.
func ReadToken(notTaken string) (to wire.Address, calls []uint64, ok bool) {
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
