package concurrent

import "sync"

// SharedRun runs one function for concurrent callers: all that call before a run begins share its result. Runs do not
// overlap. The zero value is ready.
type SharedRun[T any] struct {
	turn sync.Mutex // held by the current run

	mu   sync.Mutex // guards next
	next *run[T]    // has not begun; nil if nobody waits for it
}

type run[T any] struct {
	once   sync.Once
	result T
}

// Do returns the result of a run that begins after this call. All callers must pass the same f.
func (s *SharedRun[T]) Do(f func() T) T { return s.await(s.join(), f) }

// join returns the next run to begin.
func (s *SharedRun[T]) join() *run[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = new(run[T])
	}
	return s.next
}

func (s *SharedRun[T]) await(r *run[T], f func() T) T {
	r.once.Do(func() {
		s.turn.Lock()
		defer s.turn.Unlock()
		s.mu.Lock()
		s.next = nil // later callers need a later run
		s.mu.Unlock()
		r.result = f()
	})
	return r.result
}
