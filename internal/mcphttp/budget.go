package mcphttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// ErrBudget means that the bodies of other requests leave no memory for this one's.
var ErrBudget = errors.New("mcphttp: too many large bodies at once")

const (
	// smallBody is what every request may send whatever others do: the number of
	// connections bounds the sum.
	smallBody = 16 << 10
	// budgetWait is how long a body waits for others to be done with.
	budgetWait = 2 * time.Second
)

// Budget bounds the memory that the bodies of requests take together, from their
// first byte until nobody needs them any more. Its methods may be called by many
// goroutines.
type Budget struct {
	mu    sync.Mutex
	left  int64
	freed chan struct{} // closed when there is more left
}

// NewBudget returns a Budget of that many bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes, freed: make(chan struct{})} }

// Meter returns r with a body that counts what is read of it, for which reading
// fails with ErrBudget when there is nothing left for two seconds. release gives
// the bytes back, unless [HoldBody] has been called and its release has not.
func (b *Budget) Meter(r *http.Request) (metered *http.Request, release func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, func() {}
	}
	m := &meter{budget: b, holders: 1}
	r = r.WithContext(context.WithValue(r.Context(), meterKey{}, m))
	r.Body = &meteredBody{ReadCloser: r.Body, meter: m, ctx: r.Context()}
	return r, m.release
}

type meterKey struct{}

// HoldBody keeps the body of the metered request of ctx counted until release is
// called: what is made of it outlives the request.
func HoldBody(ctx context.Context) (release func()) {
	m, ok := ctx.Value(meterKey{}).(*meter)
	if !ok {
		return func() {}
	}
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	m.holders++
	return sync.OnceFunc(m.release)
}

// meter counts one body.
type meter struct {
	budget  *Budget
	read    int64 // by the one goroutine that reads
	taken   int64 // of the budget; guarded by its lock, as what follows
	holders int
}

func (m *meter) release() {
	b := m.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.holders--; m.holders > 0 || m.taken == 0 {
		return
	}
	b.left += m.taken
	m.taken = 0
	close(b.freed)
	b.freed = make(chan struct{})
}

// grow counts n bytes more.
func (m *meter) grow(ctx context.Context, n int64) error {
	m.read += n
	if m.read <= smallBody {
		return nil
	}
	var patience <-chan time.Time
	for {
		freed := m.take(n)
		if freed == nil {
			return nil
		}
		if patience == nil {
			timer := time.NewTimer(budgetWait)
			defer timer.Stop()
			patience = timer.C
		}
		select {
		case <-freed:
		case <-patience:
			return ErrBudget
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take takes n bytes and returns nil, or what is closed when it is worth another try.
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
