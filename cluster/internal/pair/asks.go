package pair

import (
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// ask is a request of this run that waits for its answer.
type ask struct {
	done   chan struct{}
	over   bool
	result []byte
	err    error
}

// finish sets the answer, once. The caller holds the channel's mu.
func (a *ask) finish(result []byte, err error) {
	if !a.over {
		a.over, a.result, a.err = true, result, err
		close(a.done)
	}
}

// answer is a request of a remote run with its answer. The answer is kept because it may be lost on the way.
type answer struct {
	end    context.CancelFunc // called once the asker no longer waits
	ready  bool
	failed bool
	result []byte
	kept   int64 // bytes of result in the budget
	at     time.Time
}

// asks holds the requests and notifications of extensions to callers, in both directions.
type asks struct {
	*channel
	front  *front
	own    map[uint64]*ask    // requests of this run, by id
	theirs map[uint64]*answer // requests of the remote run, by id
	tells  int                // running handlers of notifications outside of calls
}

// caller returns a peer that reaches the caller of h, or nil if the caller accepts no messages.
func (r *asks) caller(h *wire.Head) protocol.Peer {
	if h.Quiet {
		return nil
	}
	return during{r, h.N}
}

// cancelled handles a Cancel of a request.
func (r *asks) cancelled(h *wire.Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.theirs[h.ID]; a != nil {
		a.end()
	}
}

// tick drops answers that were kept long enough. The caller holds r.mu.
func (r *asks) tick(now time.Time) {
	for id, a := range r.theirs {
		if a.ready && now.Sub(a.at) > keepAnswer {
			r.p.kept.give(a.kept)
			delete(r.theirs, id)
		}
	}
}

// drop releases the answers of a dropped pair.
func (r *asks) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.theirs {
		r.p.kept.give(a.kept)
	}
	clear(r.theirs)
}

// abandon ends all requests to and from a run that is gone.
func (r *asks) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.own {
		a.finish(nil, nodeLost("it has gone"))
	}
	for _, a := range r.theirs {
		a.end()
	}
}

const (
	askAgain = time.Second // interval at which an unanswered request is repeated
	maxAsks  = 1024        // pending requests per run
	maxTells = 64          // concurrent notifications outside of calls, per run
)

// during reaches the caller of an incoming call while the call is in flight.
type during struct {
	r *asks
	n uint64
}

var _ protocol.Peer = during{}

// Call implements [protocol.Peer].
func (d during) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return d.r.ask(ctx, &wire.Head{N: d.n, Request: wire.Request{Method: method}}, params)
}

// Notify implements [protocol.Peer].
func (d during) Notify(_ context.Context, method string, params json.RawMessage) error {
	return d.r.send(&wire.Head{Kind: wire.Tell, N: d.n, Request: wire.Request{Method: method}}, params)
}

// session reaches a remote session outside of calls.
type session struct {
	r         *asks
	id        string
	extension string // the sender
}

// Session returns a peer with which an extension reaches a remote session outside of calls.
func (p *Pairs) Session(of wire.Address, id, extension string) protocol.Peer {
	return session{p.peer(of).asks, id, extension}
}

func (s session) head(kind, method string) *wire.Head {
	return &wire.Head{
		Kind:    kind,
		Request: wire.Request{Method: method, Extension: s.extension, Session: &wire.Session{ID: s.id}},
	}
}

// Call implements [protocol.Peer].
func (s session) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return s.r.ask(ctx, s.head("", method), params)
}

// Notify implements [protocol.Peer].
func (s session) Notify(_ context.Context, method string, params json.RawMessage) error {
	return s.r.send(s.head(wire.Tell, method), params)
}

// ask sends a request repeatedly until it is answered or ctx ends.
func (r *asks) ask(ctx context.Context, h *wire.Head, params []byte) ([]byte, error) {
	a := &ask{done: make(chan struct{})}
	id := r.p.numbers.Add(1)
	r.mu.Lock()
	if len(r.own) >= maxAsks {
		r.mu.Unlock()
		return nil, protocol.Errorf(protocol.Overloaded, "%d requests wait for node %s", maxAsks, r.to.Node)
	}
	r.own[id] = a
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.own, id)
		r.mu.Unlock()
	}()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for {
		one := *h
		one.Kind, one.ID = wire.Ask, id
		_ = r.send(&one, params) // it is repeated anyway
		select {
		case <-a.done:
			return a.result, a.err
		case <-again.C:
		case <-ctx.Done():
			_ = r.send(&wire.Head{Kind: wire.Cancel, ID: id}, nil)
			return nil, gaveUp(ctx)
		case <-r.p.ctx.Done():
			return nil, protocol.Errorf(protocol.ShuttingDown, "this node leaves the cluster")
		}
	}
}

// answered handles the answer to a request.
func (r *asks) answered(h *wire.Head, body []byte) {
	var err error
	if h.Error {
		body, err = nil, readError(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.own[h.ID]; a != nil {
		a.finish(body, err)
	}
}

// told handles a notification.
func (r *asks) told(h *wire.Head, body []byte) {
	if h.N != 0 {
		if _, taken := r.front.push(h.N, event{method: h.Method, params: body}); !taken {
			r.p.o.Log.Debug("a notification is dropped: its call is over, or its caller reads too slowly", "node",
				r.to.Node, "method", h.Method)
		}
		return
	}
	if h.Session == nil || !r.enter(body) {
		return
	}
	if !r.p.work.Go(func() {
		defer r.leave(body)
		_, _ = r.p.o.Node.Incoming(r.p.ctx, r.to, h, body, true)
	}) {
		r.leave(body)
	}
}

// enter reserves room to handle a notification. It reports false if too many of the run are being handled.
func (r *asks) enter(body []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tells >= maxTells || !r.p.waiting.take(int64(len(body))) {
		return false
	}
	r.tells++
	return true
}

func (r *asks) leave(body []byte) {
	r.p.waiting.give(int64(len(body)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tells--
}

// asked handles a request. A repeated request gets the same answer.
func (r *asks) asked(h *wire.Head, body []byte) {
	r.mu.Lock()
	if r.forgotten || r.front.ended { // nobody reads the answer
		r.mu.Unlock()
		return
	}
	if a := r.theirs[h.ID]; a != nil {
		again := *a
		r.mu.Unlock()
		if again.ready {
			_ = r.send(&wire.Head{Kind: wire.Answer, ID: h.ID, Error: again.failed}, again.result)
		}
		return
	}
	if h.ID == 0 || len(r.theirs) >= maxAsks {
		r.mu.Unlock()
		r.reply(h.ID, nil, protocol.Errorf(protocol.Overloaded, "the node answers %d requests", maxAsks))
		return
	}
	ctx, end := context.WithCancel(r.p.ctx)
	r.theirs[h.ID] = &answer{end: end, at: time.Now()}
	r.mu.Unlock()
	refuse := func(kind protocol.Kind, text string) {
		end()
		r.reply(h.ID, nil, protocol.Errorf(kind, "%s", text))
	}
	switch {
	case h.N != 0:
		if known, taken := r.front.push(h.N, event{ctx, h.ID, h.Method, body}); !known {
			refuse(protocol.Canceled, "the call is over")
		} else if !taken {
			refuse(protocol.Overloaded, "the caller reads too slowly")
		}
	case h.Session == nil:
		refuse(protocol.ToolNotFound, "the request names no call and no session")
	case !r.p.waiting.take(int64(len(body))):
		refuse(protocol.Overloaded, "the node has as many requests as it takes at once")
	case !r.p.work.Go(func() {
		defer end()
		result, err := r.p.o.Node.Incoming(ctx, r.to, h, body, false)
		r.p.waiting.give(int64(len(body)))
		r.reply(h.ID, result, err)
	}):
		r.p.waiting.give(int64(len(body)))
		end()
	}
}

// serve passes a request of the extension to the caller.
func (r *asks) serve(ctx context.Context, e event, client protocol.Peer) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(e.asked, end)()
	if client == nil {
		r.reply(e.id, nil, protocol.Errorf(protocol.ToolNotFound, "%s: the caller takes no requests", e.method))
		return
	}
	result, err := client.Call(ctx, e.method, e.params)
	r.reply(e.id, result, err)
}

// unserved answers the requests that were queued when the caller gave up its call. Without an answer, their
// state would never be dropped.
func (r *asks) unserved(c *call) {
	r.mu.Lock()
	events := c.events
	c.events = nil
	r.mu.Unlock()
	for _, e := range events {
		r.front.took(c, e)
		if e.id != 0 {
			r.reply(e.id, nil, protocol.Errorf(protocol.Canceled, "the call is over"))
		}
	}
}

// reply answers a request and keeps the answer.
func (r *asks) reply(id uint64, result []byte, err error) {
	if err != nil {
		result = writeError(err)
	}
	size := int64(len(result))
	r.mu.Lock()
	if a := r.theirs[id]; a != nil && !a.ready {
		a.end()
		a.ready, a.at = true, time.Now()
		if r.p.kept.take(size) {
			a.failed, a.result, a.kept = err != nil, result, size
		} else {
			a.failed, a.result = true, writeError(nodeLost("it has answered, and the answer is lost"))
		}
	}
	r.mu.Unlock()
	_ = r.send(&wire.Head{Kind: wire.Answer, ID: id, Error: err != nil}, result)
}
