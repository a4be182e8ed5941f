package outbox

import (
	"strconv"
	"strings"
	"sync"

	"github.com/exthost/exthost/cluster/internal/wire"
)

// Letter is a message to a run. It can be sent once.
type Letter struct {
	Sent func(error) // called with the error of the sender; may be nil

	to      wire.Address
	kind    string
	n       uint64  // number of the call
	message *[]byte // from buffers
}

// buffers holds buffers for messages, which live until they are sent.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Write encodes a letter. It fails like [wire.Encode].
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

// size returns the maximum size of the letter in a batch, in bytes.
func (l Letter) size() int { return len(*l.message) + wire.BatchRoom }

// ofCalls begins the notTaken tokens of letters.
const ofCalls = "calls"

// token returns the notTaken token of a message: "calls_41-42_NODE_RUN", with 0 for a pulse; "" if no letter
// needs to be reported.
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

// ReadToken returns the run that a message was sent to, and the calls in it. It reports false for a token of
// another sender.
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
