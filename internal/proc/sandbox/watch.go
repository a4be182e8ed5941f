package sandbox

import (
	"cmp"
	"slices"
	"sync"

	"github.com/exthost/exthost/internal/proc/sandbox/confine"
)

// Access is one use of a file.
type Access struct {
	Path  string // absolute, with symbolic links resolved; the parent folder of what is created, removed or renamed
	Write bool
}

// Watch records the files that confined processes ask for and their sandbox refuses. The zero value
// is ready, also for several calls of [Policy.Confine]. Watch decides nothing: the kernel refuses,
// and a program may do without the refused file.
type Watch struct {
	mu      sync.Mutex
	refused map[Access]bool
	serving sync.WaitGroup
	stop    []func()
}

// Refused ends the watch and returns the refused accesses, sorted. The processes must have ended.
func (w *Watch) Refused() (all []Access) {
	w.mu.Lock()
	stop := w.stop
	w.stop = nil
	w.mu.Unlock()
	for _, f := range stop {
		f()
	}
	w.serving.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.refused {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Access) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// note records an access unless rules allow it. A write access replaces a read access to the same
// file.
func (w *Watch) note(a Access, rules []confine.Rule) {
	for _, r := range rules {
		if within(a.Path, real(r.Path)) && (r.Write || !a.Write) {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == nil {
		w.refused = make(map[Access]bool)
	}
	if len(w.refused) == maxRefused || !a.Write && w.refused[Access{a.Path, true}] {
		return
	}
	if a.Write {
		delete(w.refused, Access{Path: a.Path})
	}
	w.refused[a] = true
}

// maxRefused bounds the accesses kept by one watch.
const maxRefused = 1000
