package mcphttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// ErrBudget means that the bodies of other requests use up the budget.
var ErrBudget = errors.New("mcphttp: too many large bodies at once")

const (
	// smallBody is the size up to which bodies are not counted; the limit on connections bounds their sum.
	smallBody = 16 << 10
	// budgetWait is how long a body waits for others to be released.
	budgetWait = 2 * time.Second
)

// Budget bounds the total memory of request bodies, from their first byte until their release. It is safe for
// concurrent use.
type Budget struct {
	mu    sync.Mutex
	left  int64
	freed chan struct{} // closed and replaced at each release
}

// NewBudget returns a Budget of that many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes, freed: make(chan struct{})} }

// Meter returns r with a body that counts against the budget as it is read. Reading fails with
// ErrBudget if the budget stays exhausted for two seconds. release gives the bytes back, once each
// release of [HoldBody] was called too. A body with a small Content-Length is not counted.
func (b *Budget) Meter(r *http.Request) (metered *http.Request, release func()) {
	if r.Body == nil || r.Body == http.NoBody || 0 <= r.ContentLength && r.ContentLength <= smallBody {
		return r, func() {}
	}
	m := &meter{budget: b, refs: 1}
	r = r.WithContext(context.WithValue(r.Context(), meterKey{}, m))
	r.Body = &meteredBody{ReadCloser: r.Body, meter: m, ctx: r.Context()}
	return r, m.release
}

type meterKey struct{}

// HoldBody keeps the body of ctx's metered request counted until release is called. It is for callers that use the
// body after the request has been answered.
func HoldBody(ctx context.Context) (release func()) {
	m, ok := ctx.Value(meterKey{}).(*meter)
	if !ok {
		return func() {}
	}
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	m.refs++
	return sync.OnceFunc(m.release)
}

// meter counts one body.
type meter struct {
	budget *Budget
	read   int64 // for the goroutine that reads the body

	// Guarded by budget.mu.
	taken int64 // bytes taken from the budget
	refs  int
}

func (m *meter) release() {
	b := m.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.refs--; m.refs > 0 || m.taken == 0 {
		return
	}
	b.left += m.taken
	m.taken = 0
	close(b.freed)
	b.freed = make(chan struct{})
}

// grow counts n more bytes, and waits for the budget if needed.
func (m *meter) grow(ctx context.Context, n int64) error {
	m.read += n
	if m.read <= smallBody {
		return nil
	}
	var timeout <-chan time.Time
	for {
		freed := m.take(n)
		if freed == nil {
			return nil
		}
		if timeout == nil {
			timer := time.NewTimer(budgetWait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-freed:
		case <-timeout:
			return ErrBudget
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take takes n bytes from the budget and returns nil, or returns a channel that is closed at the next release.
func (m *meter) take(n int64) <-chan struct{} {
	b := m.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < n {
		return b.freed
	}
	b.left -= n
	m.taken += n
	return nil
}

type meteredBody struct {
	io.ReadCloser
	meter *meter
	ctx   context.Context
}

// Read implements [io.Reader].
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if refused := b.meter.grow(b.ctx, int64(n)); refused != nil {
			return 0, refused
		}
	}
	return n, err
}
