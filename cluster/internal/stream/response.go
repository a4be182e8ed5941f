package stream

import (
	"context"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/exthost/exthost/cluster/internal/wire"
	"github.com/exthost/exthost/protocol"
)

// maxWaiting bounds the unread bytes of a response.
const maxWaiting = 64 << 10

// response is an [http.ResponseWriter] whose bytes wait until another run asks for them.
type response struct {
	number uint64
	from   wire.Address // the reader
	ctx    context.Context
	end    context.CancelFunc
	left   *time.Timer // ends the stream if nobody reads

	ready chan struct{} // holds a token when a piece is ready
	room  chan struct{} // holds a token when a write may continue

	mu       sync.Mutex // guards what follows
	header   http.Header
	status   int         // 0: not written yet
	first    http.Header // headers when the status was set; nil once the first piece is read
	waiting  []byte
	flushed  bool // unread bytes are due at once
	over     bool
	cut      bool
	reads    bool // a reader is waiting
	deadline time.Time
}

var _ http.ResponseWriter = (*response)(nil)

func newResponse(number uint64, from wire.Address) *response {
	return &response{
		number: number,
		from:   from,
		header: make(http.Header),
		ready:  make(chan struct{}, 1),
		room:   make(chan struct{}, 1),
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Header implements [http.ResponseWriter].
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(status)
}

// begin sets the status and the headers, once. The caller holds r.mu.
func (r *response) begin(status int) {
	if r.status == 0 {
		r.status, r.first = status, r.header.Clone()
	}
}

// Write implements [http.ResponseWriter]. It waits for room until the write deadline or until the
// client has gone.
func (r *response) Write(p []byte) (n int, err error) {
	for {
		r.mu.Lock()
		r.begin(http.StatusOK)
		if r.over {
			r.mu.Unlock()
			return n, http.ErrHandlerTimeout
		}
		part := min(len(p)-n, maxWaiting-len(r.waiting))
		r.waiting = append(r.waiting, p[n:n+part]...)
		n += part
		full := len(r.waiting) == maxWaiting
		deadline := r.deadline
		r.mu.Unlock()
		if full {
			wake(r.ready)
		}
		if n == len(p) {
			return n, nil
		}
		if err := r.await(deadline); err != nil {
			return n, err
		}
	}
}

// await waits for room.
func (r *response) await(deadline time.Time) error {
	var over <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-r.room:
		return nil
	case <-over:
		return os.ErrDeadlineExceeded
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// FlushError makes the bytes written so far readable at once. It implements flushing for [http.ResponseController].
func (r *response) FlushError() error {
	r.mu.Lock()
	r.begin(http.StatusOK)
	r.flushed = true
	r.mu.Unlock()
	wake(r.ready)
	return r.ctx.Err()
}

// SetWriteDeadline implements deadlines for [http.ResponseController].
func (r *response) SetWriteDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = t
	return nil
}

// finish ends the response. whole is false if the handler panicked.
func (r *response) finish(whole bool) {
	r.mu.Lock()
	if whole {
		r.begin(http.StatusOK)
	}
	r.over, r.cut = true, !whole
	r.mu.Unlock()
	wake(r.ready)
}

// take waits for the next piece. Only one reader may wait at a time.
func (r *response) take(ctx context.Context) (*piece, error) {
	r.mu.Lock()
	if r.reads {
		r.mu.Unlock()
		return nil, protocol.Errorf(protocol.InvalidArguments, "the stream is read twice at once")
	}
	r.reads = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.reads = false
		r.mu.Unlock()
	}()
	for {
		if p := r.piece(); p != nil {
			wake(r.room)
			return p, nil
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
			return nil, protocol.Errorf(protocol.Canceled, "the client has disconnected")
		}
	}
}

// piece returns the next piece if one is ready to be read, else nil.
func (r *response) piece() *piece {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over && !r.flushed && len(r.waiting) < maxWaiting {
		return nil
	}
	p := &piece{data: r.waiting, Cut: r.over && r.cut}
	if r.first != nil {
		p.Status, p.Header, r.first = r.status, r.first, nil
	}
	if !r.over {
		p.Stream = r.number
	}
	r.waiting, r.flushed = nil, false
	return p
}
