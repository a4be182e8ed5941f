package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// The kinds of messages. The front of a call is the run that makes it, the owner the run that executes it.
const (
	Here   = "here"   // to all: a node announces itself, on joining and on change
	Gone   = "gone"   // to all: a run says goodbye
	Lost   = "lost"   // to all: a run was lost
	Probe  = "probe"  // asks a run whether it is there
	Probed = "probed" // answers a probe
	Want   = "want"   // requests entries and descriptors
	Have   = "have"   // answers a want
	Call   = "call"   // front to owner: run this
	Result = "result" // owner to front: the outcome of a call
	Cancel = "cancel" // front to owner: the caller gave up
	Pulse  = "pulse"  // front to owner: open calls, and confirmed results
	Pulsed = "pulsed" // owner to front: calls that never arrived, and calls whose result was dropped
	Part   = "part"   // a part of a body
	Credit = "credit" // the receiver of a body accepts more parts
	Tell   = "tell"   // a notification for a call or a session
	Ask    = "ask"    // a request for a call or a session; repeated until it is answered
	Answer = "answer" // the answer to an ask
	Bye    = "bye"    // front to owner: a session has ended
)

// MaxHead bounds the head of a message in bytes.
const MaxHead = 16 << 10

// Head is the first line of a message. Its kind decides which fields it has. Unknown members are ignored.
type Head struct {
	Kind string `json:"k"`
	Run  string `json:"run"`         // of the sender
	N    uint64 `json:"n,omitempty"` // number of a call, from 1

	Request
	Error bool `json:"error,omitempty"` // of Result and Answer: the body is a protocol.Error
	Pulses
	Chunk
	ID uint64 `json:"id,omitempty"` // number of the Ask; of Ask, Answer and a Cancel of an Ask, from 1
	Gossip
}

// Itself is the Extension of a call to the node itself, from the operator of another node. It is no valid id.
const Itself = "exthost/node"

// Request holds the fields of Call. Tell and Ask have Method and, outside of calls, Extension and Session.
type Request struct {
	Extension string   `json:"ext,omitempty"`
	Method    string   `json:"m,omitempty"`
	Notify    bool     `json:"notify,omitempty"`
	Quiet     bool     `json:"quiet,omitempty"`   // the caller accepts no requests and notifications
	Digest    string   `json:"digest,omitempty"`  // of the descriptor that the caller saw
	Session   *Session `json:"session,omitempty"` // Tell, Ask and Bye only have its ID
	LeftMS    int64    `json:"left_ms,omitempty"` // until the deadline of the caller; 0: none
	Trace     string   `json:"trace,omitempty"`   // traceparent
	Origin    string   `json:"origin,omitempty"`  // id of the governance decision at the front
}

// Pulses holds the fields of Pulse and Pulsed, which are numbers of calls. In a Pulse, Open are the open calls, Done
// those whose outcome has arrived, and the front waits for no call below Low. In a Pulsed, the calls of NotReceived
// never arrived, and those of Spent may have run, but their results are gone.
type Pulses struct {
	Low         uint64   `json:"low,omitempty"`
	Open        []uint64 `json:"open,omitempty"`
	Done        []uint64 `json:"done,omitempty"`
	NotReceived []uint64 `json:"strange,omitempty"`
	Spent       []uint64 `json:"spent,omitempty"`
}

// Chunk holds the fields of messages about a body that is sent in parts.
type Chunk struct {
	Body  uint64 `json:"body,omitempty"`  // number of the body, from 1
	Size  int64  `json:"size,omitempty"`  // of the whole body
	At    int64  `json:"at,omitempty"`    // where a part begins
	Bytes int64  `json:"bytes,omitempty"` // of Credit: the sender may send up to this offset
}

// Gossip holds the fields of messages about the directory.
type Gossip struct {
	Hash  string   `json:"hash,omitempty"`  // of all entries that the sender knows
	Clock int64    `json:"clock,omitempty"` // of the sender, Unix milliseconds
	Seq   uint64   `json:"seq,omitempty"`   // matches Probe and Probed, or Want and Have
	Node  string   `json:"node,omitempty"`  // of Lost: the node; of Want: the list is wanted after this node
	Of    string   `json:"of,omitempty"`    // of Lost: the run
	Names []string `json:"names,omitempty"` // of Want: names of nodes, or digests
	Last  bool     `json:"last,omitempty"`  // of Have: the last part
}

// Session describes a session of the front to the owner.
type Session struct {
	ID         string          `json:"id,omitempty"` // unique at the front; "": a request without a session
	Caller     string          `json:"caller,omitempty"`
	Instance   string          `json:"instance,omitempty"`
	Version    string          `json:"era,omitempty"` // of MCP
	Caps       json.RawMessage `json:"caps,omitempty"`
	ClientInfo json.RawMessage `json:"client,omitempty"`
}

// Encode encodes a message. It fails if the head is too long or contains invalid JSON.
func Encode(h *Head, body []byte) ([]byte, error) { return Append(nil, h, body) }

// room is enough for most heads.
const room = 256

// Append appends an encoded message to out, see [Encode].
func Append(out []byte, h *Head, body []byte) ([]byte, error) {
	start := len(out)
	out, err := h.appendTo(slices.Grow(out, room+len(body)))
	if err != nil {
		return nil, fmt.Errorf("the head of a message: %w", err)
	}
	if size := len(out) - start; size > MaxHead {
		return nil, fmt.Errorf("the head of a message has %d bytes, more than %d", size, MaxHead)
	}
	return append(append(out, '\n'), body...), nil
}

// Decode decodes a message. The body shares memory with m.
func Decode(m []byte) (*Head, []byte, error) {
	head, _, ok := bytes.Cut(m[:min(len(m), MaxHead+1)], []byte{'\n'})
	if !ok {
		return nil, nil, fmt.Errorf("a message of %d bytes has no head", len(m))
	}
	body := m[len(head)+1:]
	h := new(Head)
	if err := h.parse(head); err != nil {
		return nil, nil, fmt.Errorf("the head of a message: %w", err)
	}
	if h.Kind == "" || !IsRun(h.Run) {
		return nil, nil, fmt.Errorf("the head of a message has no kind or no run: %.40q, %.40q", h.Kind, h.Run)
	}
	return h, body, nil
}
