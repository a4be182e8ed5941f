package concurrent

import (
	"sync"
	"testing"
)

// Callers before the begin of a run share it; callers during the run share the next one.
func TestShared(t *testing.T) {
	var s SharedRun[int]
	runs := 0
	count := func() int { runs++; return runs }
	first := s.join()
	if s.join() != first {
		t.Error("two that wait for a run have one each")
	}
	var later *run[int]
	s.await(first, func() int {
		later = s.join()
		return count()
	})
	if got := s.await(first, count); got != 1 {
		t.Errorf("the second of two that share a run has the result %d", got)
	}
	if later == first {
		t.Error("a caller that joins during a run shares it")
	}
	if got := s.await(later, count); got != 2 || s.Do(count) != 3 {
		t.Errorf("the next run has the result %d, of %d", got, runs)
	}
}

// Runs do not overlap, and every caller gets a run that began after its call.
func TestSharedByMany(t *testing.T) {
	var s SharedRun[int]
	var mu sync.Mutex
	asked, running := 0, false
	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() {
			mu.Lock()
			asked++
			mine := asked
			mu.Unlock()
			seen := s.Do(func() int {
				mu.Lock()
				defer mu.Unlock()
				if running {
					t.Error("two runs at once")
				}
				running = true
				defer func() { running = false }()
				return asked
			})
			if seen < mine {
				t.Errorf("request %d was given a run that began at request %d", mine, seen)
			}
		})
	}
	callers.Wait()
}
