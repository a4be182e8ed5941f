package pair

import (
	"context"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

const (
	maxChunk   = 256 << 10
	headRoom   = 16 << 10        // of a message, for its head
	allWindow  = 4 << 20         // bytes of parts that may be on their way here, from all
	bodyWindow = 1 << 20         // of one body
	maxBodies  = 256             // that arrive from one run at once
	maxCarried = 256 << 10       // of a request of a client, beside its body
	stalled    = 2 * time.Second // without a part, a body is given up
)

// channel are the messages of this run to another and back: whole, or with bodies in parts. The
// state of a pair changes under its mu; nothing is sent and no foreign code is called there.
type channel struct {
	p  *Pairs
	to wire.Address

	mu         sync.Mutex // guards what follows, and the state of what has the channel
	used       time.Time
	forgotten  bool      // the pair is dropped: a call needs another
	heardOwner time.Time // the other run last, as the owner of calls
	heardFront time.Time // and as their front
	sending    map[uint64]*sending
	receiving  map[uint64]*receiving
}

// sending is a body on its way to another run.
type sending struct {
	kind  string
	n     uint64 // of the call
	end   context.CancelFunc
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

// limit is what a run takes of a message, in bytes. A request that is carried to a node itself has its own
// head before a body of a client.
func (p *Pairs) limit(of wire.Address, h *wire.Head) int64 {
	limit := p.o.MaxBody(of)
	if h.Kind == wire.Call && h.Extension == "" {
		limit += maxCarried
	}
	return limit
}

// chunk is the length of the parts of a body, and of the longest body in one message.
func (p *Pairs) chunk() int { return max(1<<10, min(maxChunk, p.o.Sender.MaxPayload()-headRoom)) }

// sendParts sends the head of a message, and its body as the receiver grants it.
func (r *channel) sendParts(h *wire.Head, body []byte) error {
	size := int64(len(body))
	if !r.p.departing.take(size) {
		return protocol.Errorf(protocol.Overloaded, "%d bytes are on their way to other nodes already", int64(maxBytes))
	}
	id := r.p.numbers.Add(1)
	ctx, end := context.WithCancel(r.p.ctx)
	stop := func() {
		end()
		r.mu.Lock()
		delete(r.sending, id)
		r.mu.Unlock()
		r.p.departing.give(size)
	}
	h.Body, h.Size = id, size
	s := &sending{kind: h.Kind, n: h.N, end: end, wake: make(chan struct{}, 1), at: time.Now()}
	r.mu.Lock()
	r.sending[id] = s
	r.mu.Unlock()
	if err := r.sendWhole(h, nil); err != nil {
		stop()
		return err
	}
	if !r.p.work.Go(func() {
		defer stop()
		r.transfer(ctx, id, s, body)
	}) {
		stop()
	}
	return nil
}

// stopSending ends the body of a call that has its outcome. The caller holds r.mu.
func (r *channel) stopSending(call uint64) {
	for _, s := range r.sending {
		if s.kind == wire.Call && s.n == call {
			s.end()
		}
	}
}

// transfer sends the parts of a body. It ends early when no more is granted for some time: the
// receiver has given up, or has never heard of the body.
func (r *channel) transfer(ctx context.Context, id uint64, s *sending, body []byte) {
	size := r.p.chunk()
	patience := time.NewTimer(2 * stalled)
	defer patience.Stop()
	for at := 0; at < len(body) && ctx.Err() == nil; {
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
		if r.sendWhole(h, body[at:end]) != nil {
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

// begin takes the head of a message whose body comes in parts. It reports false when too much is on
// its way here. What is not a call is sent again.
func (r *channel) begin(h *wire.Head) bool {
	p := r.p
	r.mu.Lock()
	_, known := r.receiving[h.Body]
	if known || h.Size <= 0 || h.Size > p.limit(p.o.Self, h) || r.forgotten {
		r.mu.Unlock()
		return true // a call is strange at the next pulse
	}
	for id, other := range r.receiving { // the same, sent again
		if other.head.Kind == h.Kind && other.head.N == h.N && other.head.ID == h.ID {
			r.stopReceiving(id)
		}
	}
	if len(r.receiving) >= maxBodies || !p.arriving.take(h.Size) {
		r.mu.Unlock()
		return false
	}
	b := &receiving{head: *h, at: time.Now()}
	r.receiving[h.Body] = b
	p.receiving.Add(1)
	more := r.grant(b)
	r.used = b.at
	r.heardOwner = b.at
	r.mu.Unlock()
	_ = r.send(more, nil)
	return true
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
	if b.data == nil {
		b.data = make([]byte, 0, b.head.Size)
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
		_ = r.send(more, nil)
	}
	return nil, nil
}

// stopReceiving forgets a body. The caller holds r.mu.
func (r *channel) stopReceiving(id uint64) {
	r.p.arriving.give(r.receiving[id].head.Size)
	r.p.receiving.Add(-1)
	delete(r.receiving, id)
}

// abandonBodies gives up the bodies of a run that has gone.
func (r *channel) abandonBodies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.receiving {
		r.stopReceiving(id)
	}
}

// arrivingCalls returns the calls whose bodies are on their way here. The caller holds r.mu.
func (r *channel) arrivingCalls(now time.Time) (calls map[uint64]bool) {
	for _, one := range r.receiving {
		if one.head.Kind == wire.Call && now.Sub(one.at) < stalled {
			calls = with(calls, one.head.N)
		}
	}
	return calls
}

// leavingResults returns the calls whose results are on their way to the front in parts. The caller
// holds r.mu.
func (r *channel) leavingResults(now time.Time) (calls map[uint64]bool) {
	for _, s := range r.sending {
		if s.kind == wire.Result && now.Sub(s.at) < stalled {
			calls = with(calls, s.n)
		}
	}
	return calls
}

func with(set map[uint64]bool, n uint64) map[uint64]bool {
	if set == nil {
		set = make(map[uint64]bool)
	}
	set[n] = true
	return set
}

// refuseBodies gives up the bodies of calls that are refused. The caller holds r.mu.
func (r *channel) refuseBodies(refused func(call uint64) bool) {
	for id, one := range r.receiving {
		if one.head.Kind == wire.Call && refused(one.head.N) {
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
