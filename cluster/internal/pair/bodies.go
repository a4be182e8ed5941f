package pair

import (
	"context"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
)

const (
	maxChunk   = 256 << 10
	headRoom   = 16 << 10        // of a message, for its head
	allWindow  = 4 << 20         // bytes of parts that may be on their way here, from all
	bodyWindow = 1 << 20         // of one body
	maxBodies  = 256             // that arrive from one run at once
	stalled    = 2 * time.Second // without a part, a body is given up
)

// channel are the messages of this run to another and back: whole, or with bodies in parts. The
// state of a pair changes under its mu; nothing is sent and no foreign code is called there.
type channel struct {
	p  *Pairs
	to wire.Address

	mu         sync.Mutex // guards what follows, and the state of what has the channel
	used       time.Time
	heardOwner time.Time // the other run last, as the owner of calls
	heardFront time.Time // and as their front
	sending    map[uint64]*sending
	receiving  map[uint64]*receiving
}

// sending is a body on its way to another run.
type sending struct {
	n     uint64        // of the result; 0 for others
	limit int64         // the receiver takes parts up to here
	wake  chan struct{} // holds a token when limit has grown
	at    time.Time     // the last progress
}

// receiving is a body on its way here. Its parts come in order.
type receiving struct {
	head    wire.Head
	data    []byte
	granted int64
	at      time.Time
}

// chunk is the length of the parts of a body, and of the longest body in one message.
func (p *Pairs) chunk() int { return max(1<<10, min(maxChunk, p.o.Sender.MaxPayload()-headRoom)) }

// sendParts sends the head of a message, and its body as the receiver grants it.
func (r *channel) sendParts(h *wire.Head, body []byte, notTaken string) error {
	id := r.p.numbers.Add(1)
	s := &sending{wake: make(chan struct{}, 1), at: time.Now()}
	if h.Kind == wire.Result {
		s.n = h.N
	}
	h.Body, h.Size = id, int64(len(body))
	m, err := wire.Encode(h, nil)
	if err != nil {
		return unsentError{err, r.p.o.Unsent}
	}
	r.mu.Lock()
	r.sending[id] = s
	r.mu.Unlock()
	if err = r.p.o.Sender.Send(r.to, notTaken, m); err != nil {
		r.stopSending(id)
		return err
	}
	if !r.p.work.Go(func() {
		defer r.stopSending(id)
		r.transfer(r.p.ctx, id, s, body)
	}) {
		r.stopSending(id)
	}
	return nil
}

func (r *channel) stopSending(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sending, id)
}

// transfer sends the parts of a body. It ends early when no more is granted for some time: the
// receiver has given up, or has never heard of the body.
func (r *channel) transfer(ctx context.Context, id uint64, s *sending, body []byte) {
	size := r.p.chunk()
	patience := time.NewTimer(2 * stalled)
	defer patience.Stop()
	for at := 0; at < len(body); {
		r.mu.Lock()
		limit := int(min(s.limit, int64(len(body))))
		r.mu.Unlock()
		if at >= limit {
			select {
			case <-s.wake:
			case <-patience.C:
				return
			case <-ctx.Done():
				return
			}
			continue
		}
		end := min(at+size, limit)
		h := &wire.Head{Kind: wire.Part, Run: r.p.o.Self.Run}
		h.Body, h.At = id, int64(at)
		m, err := wire.Encode(h, body[at:end])
		if err != nil || r.p.o.Sender.Send(r.to, "", m) != nil {
			return // the receiver gives up the body
		}
		at = end
		patience.Reset(2 * stalled)
		r.mu.Lock()
		s.at = time.Now()
		r.mu.Unlock()
	}
}

// credit takes the word that the receiver of a body takes more of it.
func (r *channel) credit(h *wire.Head) {
	r.mu.Lock()
	s := r.sending[h.Body]
	if s != nil {
		s.limit, s.at = max(s.limit, h.Bytes), time.Now()
	}
	r.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// begin takes the head of a message whose body comes in parts.
func (r *channel) begin(h *wire.Head) {
	p := r.p
	r.mu.Lock()
	_, known := r.receiving[h.Body]
	if known || h.Size <= 0 || h.Size > p.o.MaxBody(p.o.Self) || len(r.receiving) >= maxBodies {
		r.mu.Unlock()
		return // a call is strange at the next pulse; others are sent again
	}
	for id, other := range r.receiving { // the same, sent again
		if other.head.Kind == h.Kind && other.head.N == h.N && other.head.ID == h.ID {
			r.stopReceiving(id)
		}
	}
	b := &receiving{head: *h, at: time.Now()}
	r.receiving[h.Body] = b
	p.receiving.Add(1)
	more := r.grant(b)
	r.used = b.at
	r.heardOwner = b.at
	r.mu.Unlock()
	_ = r.send(more, nil, "")
}

// grant lets the sender of a body send more; nil where it may still send enough. The caller holds
// r.mu.
func (r *channel) grant(b *receiving) *wire.Head {
	window := max(int64(r.p.chunk()), min(bodyWindow, allWindow/max(1, r.p.receiving.Load())))
	limit := min(int64(len(b.data))+window, b.head.Size)
	if limit-b.granted < window/2 && limit < b.head.Size || limit <= b.granted {
		return nil
	}
	b.granted = limit
	h := &wire.Head{Kind: wire.Credit}
	h.Body, h.Bytes = b.head.Body, limit
	return h
}

// part takes a part of a body, and returns the message once its body is complete.
func (r *channel) part(h *wire.Head, data []byte) (whole *wire.Head, body []byte) {
	r.mu.Lock()
	b := r.receiving[h.Body]
	if b == nil {
		r.mu.Unlock()
		return nil, nil
	}
	now := time.Now()
	r.heardOwner, r.heardFront = now, now
	if h.At != int64(len(b.data)) || h.At+int64(len(data)) > b.granted { // one was lost, or more came than was granted
		r.stopReceiving(h.Body)
		r.mu.Unlock()
		return nil, nil
	}
	b.data, b.at = append(b.data, data...), now
	if int64(len(b.data)) == b.head.Size {
		r.stopReceiving(h.Body)
		r.mu.Unlock()
		b.head.Body, b.head.Size = 0, 0
		return &b.head, b.data
	}
	more := r.grant(b)
	r.mu.Unlock()
	if more != nil {
		_ = r.send(more, nil, "")
	}
	return nil, nil
}

// stopReceiving forgets a body. The caller holds r.mu.
func (r *channel) stopReceiving(id uint64) {
	delete(r.receiving, id)
	r.p.receiving.Add(-1)
}

// abandonBodies gives up the bodies of a run that has gone.
func (r *channel) abandonBodies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.receiving {
		r.stopReceiving(id)
	}
}

// arrives reports whether the body of a call is on its way here.
func (r *channel) arrives(n uint64, now time.Time) bool {
	for _, one := range r.receiving {
		if one.head.Kind == wire.Call && one.head.N == n && now.Sub(one.at) < stalled {
			return true
		}
	}
	return false
}

// leaves reports whether the body of a result is on its way to the front.
func (r *channel) leaves(n uint64, now time.Time) bool {
	for _, s := range r.sending {
		if s.n == n && now.Sub(s.at) < stalled {
			return true
		}
	}
	return false
}

// refuse forgets the body of a call that is refused.
func (r *channel) refuseBody(n uint64) {
	for id, one := range r.receiving {
		if one.head.Kind == wire.Call && one.head.N == n {
			r.stopReceiving(id)
		}
	}
}

// expire gives up bodies whose parts do not come.
func (r *channel) expire(now time.Time) {
	for id, one := range r.receiving {
		if now.Sub(one.at) > stalled {
			r.stopReceiving(id)
		}
	}
}
