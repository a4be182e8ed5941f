package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// The kinds of messages.
const (
	Here   = "here"   // all: what a node says of itself, on joining and on change
	Gone   = "gone"   // all: goodbye, after which the run is not waited for
	Lost   = "lost"   // all: a run was nobody's for the grace time
	Probe  = "probe"  // asks a run whether it is there
	Probed = "probed" // the answer
	Want   = "want"   // asks for entries and descriptors
	Have   = "have"   // a part of the answer
	Call   = "call"   // front to owner: run this
	Result = "result" // owner to front: the outcome of a call
	Cancel = "cancel" // front to owner: the caller does not wait any more
	Pulse  = "pulse"  // front to owner: which calls are open, which results have come
	Pulsed = "pulsed" // owner to front: which calls never came, which are spent
	Part   = "part"   // a part of a body
	Credit = "credit" // the receiver takes more parts
	Tell   = "tell"   // a notification, of a call or of a session
	Ask    = "ask"    // a request, of a call or of a session; repeated until it is answered
	Answer = "answer" // the answer to an ask
	Bye    = "bye"    // front to owner: a session has ended
)

// MaxHead bounds the head of a message in bytes.
const MaxHead = 16 << 10

// Head is the first line of a message. Which members it has depends on its kind. Members that a
// node does not know are ignored.
type Head struct {
	Kind string `json:"k"`
	Run  string `json:"run"`         // of the sender
	N    uint64 `json:"n,omitempty"` // the number of a call between two runs, from 1

	Request
	Error bool `json:"error,omitempty"` // of Result and Answer: the body is a protocol.Error
	Pulses
	Chunk
	ID uint64 `json:"id,omitempty"` // of Tell, Ask and Answer: of an ask between two runs, from 1
	Gossip
}

// Itself is the extension of a call to a node itself, by the operator of another; no extension can
// have the id.
const Itself = "exthost/node"

// Request are the members of Call; Tell and Ask have Method and Session.
type Request struct {
	Extension string   `json:"ext,omitempty"`
	Method    string   `json:"m,omitempty"`
	Notify    bool     `json:"notify,omitempty"`
	Quiet     bool     `json:"quiet,omitempty"`   // the caller takes no requests and no notifications
	Digest    string   `json:"digest,omitempty"`  // of the descriptor that the caller saw
	Session   *Session `json:"session,omitempty"` // of Tell, Ask and Bye: with its ID alone
	LeftMS    int64    `json:"left_ms,omitempty"` // the caller waits so long; 0 is without an end
	Trace     string   `json:"trace,omitempty"`   // traceparent
	Origin    string   `json:"origin,omitempty"`  // the id of the front's decision
}

// Pulses are the members of Pulse and Pulsed: numbers of calls.
type Pulses struct {
	Low     uint64   `json:"low,omitempty"`
	Open    []uint64 `json:"open,omitempty"`
	Done    []uint64 `json:"done,omitempty"`
	Strange []uint64 `json:"strange,omitempty"`
	Spent   []uint64 `json:"spent,omitempty"`
}

// Chunk are the members of messages about a body that travels in parts.
type Chunk struct {
	Body  uint64 `json:"body,omitempty"`  // the number of a body between two runs, from 1
	Size  int64  `json:"size,omitempty"`  // of the whole body
	At    int64  `json:"at,omitempty"`    // where a part begins
	Bytes int64  `json:"bytes,omitempty"` // of Credit: the sender may send up to here
}

// Gossip are the members of messages about the directory.
type Gossip struct {
	Hash  string   `json:"hash,omitempty"`  // of what the sender knows of all
	Clock int64    `json:"clock,omitempty"` // the sender's, milliseconds since 1970
	Seq   uint64   `json:"seq,omitempty"`   // of Probe and Probed; of Want and Have
	Node  string   `json:"node,omitempty"`  // of Lost: whose run
	Of    string   `json:"of,omitempty"`    // of Lost: the run
	Names []string `json:"names,omitempty"` // of Want: of nodes, or digests
	Last  bool     `json:"last,omitempty"`  // of Have: the last part
}

// Session is a session of the front as the owner sees it.
type Session struct {
	ID         string          `json:"id,omitempty"` // unique at the front; "" is a request without a session
	Caller     string          `json:"caller,omitempty"`
	Instance   string          `json:"instance,omitempty"`
	Version    string          `json:"era,omitempty"` // of MCP
	Caps       json.RawMessage `json:"caps,omitempty"`
	ClientInfo json.RawMessage `json:"client,omitempty"`
}

// Encode returns the message. The error says that the head is too long, or no JSON.
func Encode(h *Head, body []byte) ([]byte, error) { return Append(nil, h, body) }

// room is what most heads fit in.
const room = 256

// Append is Encode to the end of out.
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

// Decode returns the head of a message and its body, which is a part of m.
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
