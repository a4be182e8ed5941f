package coalesce

import "sync"

// Shared runs one function for callers that wait for its result: all who ask before a run
// begins share that run. Runs do not overlap. The zero value is ready.
type Shared[T any] struct {
	turn sync.Mutex // held by the run that is under way

	mu   sync.Mutex // guards next
	next *run[T]    // that has not begun; nil when nobody waits for one
}

type run[T any] struct {
	once   sync.Once
	result T
}

// Do returns the result of a run that begins after this call. All callers give the same f.
func (s *Shared[T]) Do(f func() T) T { return s.await(s.join(), f) }

// join returns the next run that begins.
func (s *Shared[T]) join() *run[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = new(run[T])
	}
	return s.next
}

func (s *Shared[T]) await(r *run[T], f func() T) T {
	r.once.Do(func() {
		s.turn.Lock()
		defer s.turn.Unlock()
		s.mu.Lock()
		s.next = nil // whoever asks from now on needs a later run
		s.mu.Unlock()
		r.result = f()
	})
	return r.result
}
