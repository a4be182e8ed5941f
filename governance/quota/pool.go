package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
)

// Pool holds what all counters of a host share: the source of their leases, and their background
// work.
type Pool struct {
	source  Source
	ahead   concurrent.Gate
	closing context.Context // ends with Close
	stop    context.CancelFunc

	mu    sync.Mutex         // guards what follows
	ends  context.CancelFunc // ends Watch; nil while nothing is watched
	err   error              // of the last request to the source; nil: it answered
	retry time.Time          // with err: no request before this time
	said  map[string]said    // by policy with a faulty counter
}

// said is the last note or error that the source reported about a counter. It is valid until the
// source reports neither for that counter, or the window ends.
type said struct {
	key   string
	until time.Time
	note  string
	err   error
}

const (
	// retryAfter is how long requests for a lease fail at once after one has failed, so that not
	// each waits for a timeout.
	retryAfter = 250 * time.Millisecond
	// aheadTimeout bounds a request for a lease ahead of need.
	aheadTimeout = 5 * time.Second
	// maxSaid bounds the policies with a faulty counter.
	maxSaid = 1000

	watchEach    = 10 * time.Second
	watchAway    = time.Second // after a failure
	watchTimeout = 2 * time.Second
)

var errNoSource = errors.New("this host is not the node of its configuration, and only nodes of the cluster count: " +
	"exthost serve")

// NewPool returns a pool of leases from source. With a nil source, every request fails. The caller
// must close the pool.
func NewPool(source Source) *Pool {
	p := &Pool{source: source, said: make(map[string]said)}
	p.closing, p.stop = context.WithCancel(context.Background())
	return p
}

// Close ends the background work, and waits for it until ctx ends.
func (p *Pool) Close(ctx context.Context) error {
	p.stop()
	select {
	case <-p.ahead.Close():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Note returns what the source reported as odd about the counters of a policy; "" for nothing.
func (p *Pool) Note(policy string) string { return p.of(policy).note }

func (p *Pool) of(policy string) said {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.said[policy]; time.Now().Before(s.until) {
		return s
	}
	return said{}
}

// hear stores what the source reported about a counter; an empty note and a nil err mean that all
// is well.
func (p *Pool) hear(c *Claim, note string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.said[c.Policy]
	switch {
	case note == "" && err == nil && before.key == c.Key:
		delete(p.said, c.Policy)
	case note == "" && err == nil: // the stored report is about another counter, which is still faulty
	case known || len(p.said) < maxSaid:
		p.said[c.Policy] = said{c.Key, time.Now().Add(c.Window), note, err}
	}
}

// Watch checks the source periodically, so that [Pool.Err] is up to date, until Close or Watch(false).
func (p *Pool) Watch(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.source == nil || on == (p.ends != nil):
	case on:
		var ctx context.Context
		ctx, p.ends = context.WithCancel(p.closing)
		p.ahead.Go(func() { p.look(ctx) })
	default:
		p.ends()
		p.ends = nil
	}
}

func (p *Pool) look(watched context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-watched.Done():
			return
		case <-timer.C:
		}
		ctx, cancel := context.WithTimeout(watched, watchTimeout)
		err := p.source.Reach(ctx)
		cancel()
		if watched.Err() != nil {
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

// Err returns why the source cannot be reached, or why a counter of the policy fails. It is nil if
// the last answer was fine.
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

// lease requests a lease. It fails at once if the last request failed less than retryAfter ago.
func (p *Pool) lease(ctx context.Context, c Claim) (Lease, error) {
	if err := p.failed(time.Now()); err != nil {
		return Lease{}, err
	}
	l, err := p.source.Lease(ctx, c)
	if ctx.Err() != nil && err != nil {
		return l, err // the caller gave up, which says nothing about the source
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
