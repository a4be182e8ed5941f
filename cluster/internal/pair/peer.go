package pair

import (
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// peer is the pair with one remote run, in both directions.
type peer struct {
	*channel
	out  *front
	in   *owner
	asks *asks
}

func newPeer(p *Pairs, to wire.Address) *peer {
	c := &channel{
		p:         p,
		to:        to,
		used:      time.Now(),
		sending:   make(map[uint64]*sending),
		receiving: make(map[uint64]*receiving),
	}
	a := &asks{channel: c, own: make(map[uint64]*ask), theirs: make(map[uint64]*answer)}
	a.front = &front{channel: c, asks: a, open: make(map[uint64]*call), done: make(map[uint64]struct{})}
	return &peer{
		channel: c,
		out:     a.front,
		asks:    a,
		in:      &owner{channel: c, asks: a, calls: make(map[uint64]*run), refused: make(map[uint64]struct{})},
	}
}

// send sends a message, in parts if its body is long. A *protocol.Error means that the message can never be
// sent.
func (r *channel) send(h *wire.Head, body []byte) error {
	if len(body) > r.p.chunk() {
		return r.sendParts(h, body)
	}
	return r.sendWhole(h, body)
}

// sendWhole sends one message.
func (r *channel) sendWhole(h *wire.Head, body []byte) error {
	l, err := r.letter(h, body)
	if err != nil {
		return err
	}
	return r.p.outbox.deliver(l)
}

// few is the number of calls in flight up to which batching does not pay.
const few = 2

// post sends a call or a result, batched with others if many calls are in flight. sent, which may be nil, is
// called with the error.
func (r *channel) post(h *wire.Head, body []byte, sent func(error)) {
	if len(body) <= min(r.p.chunk(), maxBatch) && r.p.busy.Load() > few {
		if l, err := r.letter(h, body); err == nil {
			l.sent = sent
			r.p.outbox.post(l)
			return
		}
	}
	if err := r.send(h, body); sent != nil {
		sent(err)
	}
}

// letter encodes a message.
func (r *channel) letter(h *wire.Head, body []byte) (letter, error) {
	h.Run = r.p.o.Self.Run
	l, err := newLetter(r.to, h, body)
	if err != nil {
		return l, protocol.Errorf(protocol.LineTooLong, "%w; what the client says of itself may be too long", err)
	}
	return l, nil
}

// NotTaken tells the pairs that no run received the message with the notTaken token what. It returns false for a token
// of another sender.
func (p *Pairs) NotTaken(what string) bool {
	to, calls, ok := readToken(what)
	if !ok {
		return false
	}
	p.mu.Lock()
	r := p.runs[to]
	p.mu.Unlock()
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out.unreachable.IsZero() {
		r.out.unreachable = time.Now()
	}
	for _, n := range calls {
		if c := r.out.open[n]; c != nil {
			r.out.finish(c, nil, notSent(ErrUnreachable))
		}
	}
	return true
}

// tick does the periodic work. paused is how long this process was suspended. It reports whether the pair has
// been idle long enough to be dropped.
func (r *peer) tick(now time.Time, paused time.Duration) (idle bool) {
	r.mu.Lock()
	pulses := r.out.pulses(now, paused)
	r.in.overdue(now, paused)
	r.asks.tick(now)
	r.expire(now)
	// calls and bodies count towards the bounds of all pairs: a pair that has any is not dropped
	busy := len(r.out.open) + len(r.in.calls) + len(r.receiving)
	idle = busy == 0 && (r.out.ended ||
		len(r.out.done)+len(r.asks.own)+len(r.asks.theirs)+len(r.sending) == 0 && now.Sub(r.used) > idlePeer)
	r.forgotten = idle
	r.mu.Unlock()
	for _, h := range pulses {
		_ = r.send(h, nil)
	}
	return idle
}
