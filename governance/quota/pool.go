package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/concurrent/inflight"
)

// Pool is what the counters of a host have in common: where their leases come from, and what is
// done ahead of need.
type Pool struct {
	source  Source
	ahead   inflight.Gate
	closing context.Context // ends with Close
	stop    context.CancelFunc
	watch   sync.Once

	mu    sync.Mutex      // guards what follows
	err   error           // of the last that was asked of the source; nil: it was answered
	retry time.Time       // with err: no lease is asked for before
	said  map[string]said // of each policy with a counter that is odd
}

// said is what the source said last of a counter that is odd. It holds until that counter is well, or
// its window has ended.
type said struct {
	key   string
	until time.Time
	note  string
	err   error
}

const (
	// retryAfter is how long nobody asks again after a failure: callers are refused at once, and do
	// not each wait for the same.
	retryAfter = 250 * time.Millisecond
	// aheadTimeout bounds a lease that nobody waits for.
	aheadTimeout = 5 * time.Second
	// maxSaid bounds the policies with a counter that is odd.
	maxSaid = 1000

	watchEach    = 10 * time.Second
	watchAway    = time.Second // while the source does not answer
	watchTimeout = 2 * time.Second
)

var errNoSource = errors.New("this host is not the node of its configuration, and only nodes of the cluster count: " +
	"exthost serve")

// NewPool returns a pool over source; nil is one that cannot be reached. The caller closes it.
func NewPool(source Source) *Pool {
	p := &Pool{source: source, said: make(map[string]said)}
	p.closing, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends what is done ahead of need, and waits for it until ctx ends.
func (p *Pool) Close(ctx context.Context) error {
	p.stop()
	select {
	case <-p.ahead.Close():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Note says what is odd about the counters of a policy; "" is nothing.
func (p *Pool) Note(policy string) string { return p.of(policy).note }

func (p *Pool) of(policy string) said {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.said[policy]; time.Now().Before(s.until) {
		return s
	}
	return said{}
}

// hear remembers what the source says of a counter.
func (p *Pool) hear(c *Claim, note string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.said[c.Policy]
	switch {
	case note == "" && err == nil && before.key == c.Key:
		delete(p.said, c.Policy)
	case note == "" && err == nil: // another counter is well
	case known || len(p.said) < maxSaid:
		p.said[c.Policy] = said{c.Key, time.Now().Add(c.Window), note, err}
	}
}

// Watch looks at the source now and then until Close, so that [Pool.Err] is that of now.
func (p *Pool) Watch() {
	if p.source != nil {
		p.watch.Do(func() { p.ahead.Go(p.look) })
	}
}

func (p *Pool) look() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.closing.Done():
			return
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(p.closing, watchTimeout)
		err := p.source.Reach(ctx)
		cancel()
		if p.closing.Err() != nil {
			return
		}
		p.answered(err)
		if err != nil {
			timer.Reset(watchAway)
		} else {
			timer.Reset(watchEach)
		}
	}
}

// Err returns why the source cannot be reached, or gives no leases of a counter of the policy; nil: it
// answered the last that it was asked.
func (p *Pool) Err(policy string) error {
	if p.source == nil {
		return errNoSource
	}
	p.mu.Lock()
	err := p.err
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return p.of(policy).err
}

func (p *Pool) answered(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; err != nil {
		p.retry = time.Now().Add(retryAfter)
	}
}

// lease asks the source, unless that has failed just now.
func (p *Pool) lease(ctx context.Context, c Claim) (Lease, error) {
	if err := p.failed(time.Now()); err != nil {
		return Lease{}, err
	}
	l, err := p.source.Lease(ctx, c)
	if ctx.Err() != nil && err != nil {
		return l, err // which says nothing about the source, except if that answers nobody
	}
	if one, ok := errors.AsType[*CounterError](err); ok {
		p.answered(nil)
		p.hear(&c, "", one)
		return l, err
	}
	if p.answered(err); err == nil {
		p.hear(&c, l.Note, nil)
	}
	return l, err
}

func (p *Pool) failed(now time.Time) error {
	if p.source == nil {
		return errNoSource
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil && now.Before(p.retry) {
		return p.err
	}
	return nil
}
