package file

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// Only one holds the lock at a time, and it leaves no file behind.
func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := LockDir(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d at once", n)
			}
			inside.Add(-1)
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := LockDir(dir + "/missing"); !os.IsNotExist(err) {
		t.Error(err)
	}
}
