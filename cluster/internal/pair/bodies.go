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
	headRoom   = 16 << 10        // reserved per message for its head
	allWindow  = 4 << 20         // unacknowledged bytes of all bodies, divided by their number at each grant
	bodyWindow = 1 << 20         // unacknowledged bytes of one body
	maxBodies  = 256             // concurrent incoming bodies per run
	maxCarried = 256 << 10       // bytes of a forwarded HTTP request in addition to its body
	stalled    = 2 * time.Second // a body without progress is given up
)

// channel sends and receives the messages of a pair, whole or with bodies in parts. Its mu guards the whole
// pair; nothing is sent and no foreign code is called while holding it.
type channel struct {
	p  *Pairs
	to wire.Address

	mu         sync.Mutex // guards what follows, and the rest of the pair
	used       time.Time
	forgotten  bool      // the pair is dropped: a call needs a new one
	heardOwner time.Time // when the remote run was last heard as owner
	heardFront time.Time // and as front
	sending    map[uint64]*sending
	receiving  map[uint64]*receiving
}

// sending is an outgoing body.
type sending struct {
	kind  string
	n     uint64 // number of the call
	end   context.CancelFunc
	limit int64         // the receiver accepts the body up to this offset
	wake  chan struct{} // holds a token when limit has grown
	at    time.Time     // time of the last progress
}

// receiving is an incoming body. Its parts arrive in order.
type receiving struct {
	head    wire.Head
	data    []byte
	granted int64
	at      time.Time
}

// limit returns the maximum body of message h that a run accepts, in bytes. For a forwarded HTTP request it is higher,
// since the body contains the head of the HTTP request too.
func (p *Pairs) limit(of wire.Address, h *wire.Head) int64 {
	limit := p.o.MaxBody(of)
	if h.Kind == wire.Call && h.Extension == "" {
		limit += maxCarried
	}
	return limit
}

// chunk returns the size of the parts of a body. Shorter bodies are sent whole.
func (p *Pairs) chunk() int { return max(1<<10, min(maxChunk, p.o.Sender.MaxPayload()-headRoom)) }

// sendParts sends the head of a message, and then its body as the receiver grants credit.
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

// stopSending stops sending the body of a call that has an outcome. The caller holds r.mu.
func (r *channel) stopSending(call uint64) {
	for _, s := range r.sending {
		if s.kind == wire.Call && s.n == call {
			s.end()
		}
	}
}

// transfer sends the parts of a body. It gives up if it gets no credit for 2*stalled: the receiver has given up the
// body, or has never received the head.
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
			return // the receiver will give up the body
		}
		at = end
		patience.Reset(2 * stalled)
		r.mu.Lock()
		s.at = time.Now()
		r.mu.Unlock()
	}
}

// credit handles a Credit of the receiver.
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

// begin handles the head of a message whose body arrives in parts. It reports false if too many bodies are incoming:
// the sender then repeats the message unless it is a call.
func (r *channel) begin(h *wire.Head) bool {
	p := r.p
	r.mu.Lock()
	_, known := r.receiving[h.Body]
	if known || h.Size <= 0 || h.Size > p.limit(p.o.Self, h) || r.forgotten {
		r.mu.Unlock()
		return true // the answer to the next pulse reports a call as never received
	}
	for id, other := range r.receiving { // the same message, sent again
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

// grant returns a Credit for the sender, or nil if it has enough. The caller holds r.mu.
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

// part handles a part of a body. It returns the message once the body is complete.
func (r *channel) part(h *wire.Head, data []byte) (whole *wire.Head, body []byte) {
	r.mu.Lock()
	b := r.receiving[h.Body]
	if b == nil {
		r.mu.Unlock()
		return nil, nil
	}
	now := time.Now()
	r.heardOwner, r.heardFront = now, now
	if h.At != int64(len(b.data)) || h.At+int64(len(data)) > b.granted { // a part was lost, or exceeds the credit
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

// stopReceiving drops an incoming body. The caller holds r.mu.
func (r *channel) stopReceiving(id uint64) {
	r.p.arriving.give(r.receiving[id].head.Size)
	r.p.receiving.Add(-1)
	delete(r.receiving, id)
}

// abandonBodies drops the incoming bodies of a run that is gone.
func (r *channel) abandonBodies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.receiving {
		r.stopReceiving(id)
	}
}

// arrivingCalls returns the calls whose bodies are incoming. The caller holds r.mu.
func (r *channel) arrivingCalls(now time.Time) (calls map[uint64]bool) {
	for _, one := range r.receiving {
		if one.head.Kind == wire.Call && now.Sub(one.at) < stalled {
			calls = with(calls, one.head.N)
		}
	}
	return calls
}

// leavingResults returns the calls whose results are being sent in parts. The caller holds r.mu.
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

// refuseBodies drops the bodies of refused calls. The caller holds r.mu.
func (r *channel) refuseBodies(refused func(call uint64) bool) {
	for id, one := range r.receiving {
		if one.head.Kind == wire.Call && refused(one.head.N) {
			r.stopReceiving(id)
		}
	}
}

// expire drops bodies without progress. The caller holds r.mu.
func (r *channel) expire(now time.Time) {
	for id, one := range r.receiving {
		if now.Sub(one.at) > stalled {
			r.stopReceiving(id)
		}
	}
}
