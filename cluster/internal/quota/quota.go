// Package quota leases units of the limits that the nodes of a cluster share. The counters are records in a
// JetStream key-value bucket.
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
	Nodes   func() int // number of nodes, including this one
}

// Quota implements [quota.Source] for one node.
type Quota struct {
	o      Options
	bucket bucket
	clock  clock
	leases chan struct{} // holds a value for each running lease

	mu    sync.Mutex // guards what follows
	known map[string]*counter
	swept time.Time
}

// counter is the state of one counter in this run.
type counter struct {
	turn chan struct{} // holds a token while the counter is changed
	seen own           // guarded by turn

	users int       // goroutines that hold or wait for turn; guarded by Quota.mu
	ends  time.Time // end of the window in seen, by the local clock; guarded by Quota.mu
}

const (
	// MaxLeases bounds the concurrent leases of a node. Each lease sends one request at a time. Hubs drop requests of a
	// node beyond twice that number.
	MaxLeases = 8

	askTimeout = time.Second // per request
	maxTries   = 64          // per lease, while other nodes change the counter
	// the maximum pause before the second try; doubles with each try, as hundreds of nodes compete when a window begins
	retryPause = 5 * time.Millisecond
	graceTTL   = 10 * time.Second // counters are kept for so long after their window

	maxKnown  = 100_000 // counters per window
	sweepEach = time.Second
)

var errSilent = errors.New("the servers of the cluster do not answer in time")

var _ quota.Source = (*Quota)(nil)

// New returns the leases for a node.
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
	if errors.Is(err, errSilent) { // a missing permission also causes a timeout
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

// try leases from the current record. The caller holds k.turn.
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

// token returns the key of a counter in the bucket: a hash, since keys allow only some characters.
func token(c *quota.Claim) string {
	sum := sha256.Sum256([]byte(c.Policy + "\x00" + c.Key))
	return base64.RawURLEncoding.EncodeToString(sum[:keyBytes])
}

const keyBytes = 18

// isToken reports whether key may be the key of a counter.
func isToken(key string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(key)
	return err == nil && len(raw) == keyBytes
}

// counter returns the state of a counter and pins it until release. The state is kept until its window ends.
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
