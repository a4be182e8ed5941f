package quota

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// MaxCounters bounds the keys of a policy in one window, on one host.
const MaxCounters = 10_000

// Counters holds the counters of one policy by key. Of may be called concurrently.
type Counters[K comparable] struct {
	Pool   *Pool
	Claims func(K) []Claim // returns the claims for a new key

	mu    sync.Mutex // guards what follows
	byKey map[K][]*Counter
	swept time.Time // when expired counters were last removed
}

// sweepEach is the minimum interval of sweeps over all counters.
const sweepEach = 100 * time.Millisecond

// Of returns the counters of key. It fails if [MaxCounters] keys are in use in this window; no key is evicted,
// because the caller of an evicted key would get a fresh limit.
func (s *Counters[K]) Of(key K, now time.Time) ([]*Counter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.byKey[key]
	if list != nil {
		return list, nil
	}
	if len(s.byKey) >= MaxCounters {
		s.sweepLocked(now)
		if len(s.byKey) >= MaxCounters {
			return nil, fmt.Errorf("there are %d callers, sessions or tools to count apart in this window, and no "+
				"more can be", MaxCounters)
		}
	}
	if s.byKey == nil {
		s.byKey = make(map[K][]*Counter)
	}
	for _, c := range s.Claims(key) {
		list = append(list, s.Pool.New(c))
	}
	s.byKey[key] = list
	return list, nil
}

func (s *Counters[K]) sweepLocked(now time.Time) {
	if now.Sub(s.swept) < sweepEach {
		return
	}
	s.swept = now
	for k, list := range s.byKey {
		if !slices.ContainsFunc(list, func(c *Counter) bool { return !c.over(now) }) {
			delete(s.byKey, k)
		}
	}
}
