package quota

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// MaxCounters bounds the keys of one policy on one host that are in use in one window.
const MaxCounters = 10_000

// Counters are those of one policy, by what tells them apart. Of may be called by many goroutines at once.
type Counters[K comparable] struct {
	Pool   *Pool
	Claims func(K) []Claim // of the counters of a key that is new

	mu    sync.Mutex // guards what follows
	byKey map[K][]*Counter
	swept time.Time // when those that are over were last looked for
}

// sweepEach is how often at most all counters are looked at.
const sweepEach = 100 * time.Millisecond

// Of returns the counters of key. The error says that there are [MaxCounters] keys in this window:
// none of them is forgotten, as a caller would then get its limit anew.
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
