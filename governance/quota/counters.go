package quota

import (
	"fmt"
	"sync"
	"time"
)

// MaxCounters bounds the counters of one limit on one host that are in use in one window.
const MaxCounters = 10_000

// Counters are those of one limit, by what tells them apart. Of may be called by many goroutines at once.
type Counters[K comparable] struct {
	Pool  *Pool
	Claim func(K) Claim // of a new counter

	mu    sync.Mutex // guards what follows
	byKey map[K]*Counter
	swept time.Time // when those that are over were last looked for
}

// sweepEach is how often at most all counters are looked at.
const sweepEach = 100 * time.Millisecond

// Of returns the counter of key. The error says that there are [MaxCounters] in this window: none
// of them is forgotten, as a caller would then get its limit anew.
func (s *Counters[K]) Of(key K, now time.Time) (*Counter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byKey[key]
	if c != nil {
		return c, nil
	}
	if len(s.byKey) >= MaxCounters {
		s.sweepLocked(now)
		if len(s.byKey) >= MaxCounters {
			return nil, fmt.Errorf("there are %d callers, sessions or tools to count apart in this window, and no more can be", MaxCounters)
		}
	}
	if s.byKey == nil {
		s.byKey = make(map[K]*Counter)
	}
	c = s.Pool.New(s.Claim(key))
	s.byKey[key] = c
	return c, nil
}

func (s *Counters[K]) sweepLocked(now time.Time) {
	if now.Sub(s.swept) < sweepEach {
		return
	}
	s.swept = now
	for k, c := range s.byKey {
		if c.over(now) {
			delete(s.byKey, k)
		}
	}
}
