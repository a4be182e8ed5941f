// Package quota leases units of the limits that the nodes of a cluster share, from a key-value
// bucket of JetStream.
package quota

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/exthost/exthost/governance/quota"
)

// Options of a [Quota].
type Options struct {
	Cluster string
	Node    string
	Run     string // of this node
	Asker   Asker
	Nodes   func() int // how many nodes there are, this one included
}

// Quota leases for one node. It implements [quota.Source].
type Quota struct {
	o      Options
	bucket bucket
	clock  clock
	leases chan struct{} // holds a value for each lease that is under way

	mu    sync.Mutex // guards what follows
	known map[string]*counter
	swept time.Time
}

// counter is what this run knows of one counter.
type counter struct {
	turn chan struct{} // holds a token while the counter is changed
	seen own           // guarded by turn

	users int       // that have it or wait for it; guarded by Quota.mu
	ends  time.Time // of the window of seen, by the clock of this host; guarded by Quota.mu
}

const (
	// MaxLeases is how many leases of a node are under way at once, each with one request at a time. Hubs bound the
	// requests of a node, and drop what is beyond.
	MaxLeases = 8

	askTimeout = time.Second // of one request
	maxTries   = 64          // of one lease, while others change the counter
	// doubles with each try, so that hundreds of nodes get their turn when a window begins
	retryPause = 5 * time.Millisecond
	graceTTL   = 10 * time.Second // after its window, a counter is forgotten

	maxKnown  = 100_000 // counters of one node in one window
	sweepEach = time.Second
)

var errSilent = errors.New("the servers of the cluster do not answer in time")

var _ quota.Source = (*Quota)(nil)

// New returns the leases of a node.
func New(o Options) *Quota {
	return &Quota{
		o:      o,
		bucket: bucket{o.Cluster, o.Asker},
		leases: make(chan struct{}, MaxLeases),
		known:  make(map[string]*counter),
	}
}

// Reach implements [quota.Source].
func (q *Quota) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errSilent)
	defer cancel()
	err := q.clock.set(func() (time.Time, error) { return q.bucket.look(ctx) })
	if errors.Is(err, errSilent) { // as to who asks what it may not
		return fmt.Errorf("%w; exthost cluster permissions %s prints what a NATS of your own must permit", err,
			q.o.Node)
	}
	return err
}

// Lease implements [quota.Source].
func (q *Quota) Lease(ctx context.Context, c quota.Claim) (quota.Lease, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, 2*askTimeout, errSilent)
	defer cancel()
	select {
	case q.leases <- struct{}{}:
		defer func() { <-q.leases }()
	case <-waiting.Done():
		return quota.Lease{}, context.Cause(waiting)
	}
	return q.lease(ctx, c)
}

func (q *Quota) lease(ctx context.Context, c quota.Claim) (quota.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*askTimeout, errSilent)
	defer cancel()
	if !q.clock.fresh() {
		if err := q.Reach(ctx); err != nil {
			return quota.Lease{}, err
		}
	}
	key := token(&c)
	k, err := q.counter(key)
	if err != nil {
		return quota.Lease{}, err
	}
	defer q.release(k)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return quota.Lease{}, context.Cause(ctx)
	}
	for try := range maxTries {
		l, err := q.try(ctx, key, k, c)
		if !errors.Is(err, errChanged) {
			return l, err
		}
		pause := time.NewTimer(rand.N(retryPause << min(try, 7)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return l, context.Cause(ctx)
		}
	}
	return quota.Lease{}, &quota.CounterError{
		Err: fmt.Errorf("other nodes change the counter of policy %s all the time", c.Policy),
	}
}

// try leases by the record as it is now. The caller has the counter's turn.
func (q *Quota) try(ctx context.Context, key string, k *counter, c quota.Claim) (quota.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errSilent)
	defer cancel()
	r, revision, err := q.bucket.get(ctx, key)
	if err != nil {
		return quota.Lease{}, err
	}
	now := q.clock.now()
	a, err := settle(r, &want{
		Claim: c,
		node:  q.o.Node,
		run:   q.o.Node + "." + q.o.Run,
		nodes: q.o.Nodes(),
		now:   now.UnixNano(),
		seen:  k.seen,
	})
	if err != nil {
		return quota.Lease{}, &quota.CounterError{Err: err}
	}
	if a.next != nil {
		if err := q.bucket.put(ctx, key, a.next, revision, time.Duration(a.ends-now.UnixNano())+graceTTL); err != nil {
			return quota.Lease{}, err
		}
	}
	a.lease.Ends = q.clock.local(time.Unix(0, a.ends))
	k.seen = a.seen
	q.mu.Lock()
	k.ends = a.lease.Ends
	q.mu.Unlock()
	return a.lease, nil
}

// token is the key of a counter in the bucket: of one length, and of characters that keys may have.
func token(c *quota.Claim) string {
	sum := sha256.Sum256([]byte(c.Policy + "\x00" + c.Key))
	return base64.RawURLEncoding.EncodeToString(sum[:keyBytes])
}

const keyBytes = 18

// isToken reports whether a key can be one of a counter.
func isToken(key string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(key)
	return err == nil && len(raw) == keyBytes
}

// counter returns what is known of a counter, until release. What was taken of a window that goes
// on is never forgotten.
func (q *Quota) counter(key string) (*counter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.known[key]
	if k != nil {
		k.users++
		return k, nil
	}
	if now := time.Now(); len(q.known) >= maxKnown && now.Sub(q.swept) > sweepEach {
		q.swept = now
		for key, k := range q.known {
			if k.users == 0 && now.After(k.ends.Add(graceTTL)) {
				delete(q.known, key)
			}
		}
	}
	if len(q.known) >= maxKnown {
		return nil, &quota.CounterError{
			Err: fmt.Errorf("this node uses %d counters of the cluster in this window, and no more can be", maxKnown),
		}
	}
	k = &counter{turn: make(chan struct{}, 1), users: 1}
	q.known[key] = k
	return k, nil
}

func (q *Quota) release(k *counter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	k.users--
}
