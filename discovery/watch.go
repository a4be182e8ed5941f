package discovery

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Places are what a [Watcher] watches.
type Places struct {
	Dirs   []string // absolute; subdirectories are not included
	Ignore []string // base names of new directories to ignore
	// Wants reports whether changes of a file matter. It must be quick, and runs on another goroutine.
	Wants func(path string) bool
}

// Watcher signals that something may have changed on disk: directories were created, removed or renamed, or files that
// Places.Wants accepts were written or replaced. It does not tell what has changed: its user searches again, so that
// lost and repeated events do no harm.
type Watcher struct {
	changed  chan struct{} // holds a token after a change
	interval time.Duration // of polling
	add      func(system *fsnotify.Watcher, dir string) error
	stop     chan struct{}
	running  sync.WaitGroup

	view       atomic.Pointer[view]
	pollReason atomic.Pointer[error] // why the Watcher polls; nil while it uses the system's events

	mu     sync.Mutex // guards the fields below
	system *fsnotify.Watcher
	seen   [sha256.Size]byte // the fingerprint of the latest poll or Mark
	closed bool
}

// view is the current Places of a Watcher.
type view struct {
	Places
	dirs map[string]struct{} // the set of Dirs
}

// pollInterval is the interval of polling if the system's events are unavailable.
const pollInterval = 2 * time.Second

// NewWatcher returns a Watcher without Places. It must be closed.
func NewWatcher() *Watcher {
	w := &Watcher{
		changed:  make(chan struct{}, 1),
		interval: pollInterval,
		stop:     make(chan struct{}),
		add:      (*fsnotify.Watcher).Add,
	}
	w.view.Store(new(view))
	return w
}

// Changed returns a channel that holds a token if something may have changed since it was last taken.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Watch replaces the watched places by p. The caller must search once afterwards, because earlier changes are not
// signalled. If the system runs out of watches, the Watcher polls every two seconds from then on; polls is the reason
// for polling, not a failure.
func (w *Watcher) Watch(p Places) (polls error) {
	now := &view{Places: p, dirs: make(map[string]struct{}, len(p.Dirs))}
	for _, dir := range p.Dirs {
		now.dirs[dir] = struct{}{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before, reason := w.view.Swap(now), w.pollReason.Load()
	switch {
	case w.closed:
		return nil
	case reason != nil:
		return *reason
	case w.system == nil:
		system, err := fsnotify.NewWatcher()
		if err != nil {
			return w.poll(err)
		}
		w.system = system
		w.running.Go(func() { w.listen(system) })
	}
	for _, dir := range before.Dirs {
		if _, still := now.dirs[dir]; !still {
			_ = w.system.Remove(dir) // usually fails because dir was removed
		}
	}
	for _, dir := range p.Dirs { // including known ones, which may have been created anew
		if err := w.add(w.system, dir); isLimit(err) {
			return w.poll(fmt.Errorf("%s: %w", dir, err))
		}
	}
	return nil
}

// isLimit reports whether err means that the system is out of watches. Other errors, such as for a removed directory,
// concern one directory only.
func isLimit(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) ||
		errors.Is(err, syscall.ENOMEM)
}

// poll starts polling because of err. mu is held.
func (w *Watcher) poll(err error) error {
	w.pollReason.Store(&err) // before the fingerprint: a change that an event signals must not hide the change back
	system := w.system
	w.system = nil
	w.seen = w.view.Load().fingerprint()
	w.running.Go(func() {
		if system != nil {
			_ = system.Close() // without mu, because Close waits for the reader of the events
		}
		w.pollLoop()
	})
	return err
}

// pollLoop polls until Close.
func (w *Watcher) pollLoop() {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		if w.see() {
			w.notify()
		}
	}
}

// Mark is called before a search. While the Watcher polls, it compares with what the search may see: a change that only
// the search has seen is signalled when it is undone.
func (w *Watcher) Mark() {
	if w.pollReason.Load() != nil {
		w.see()
	}
}

// see replaces the latest fingerprint, and reports whether it has changed.
func (w *Watcher) see() (changed bool) {
	now := w.view.Load().fingerprint()
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = now != w.seen
	w.seen = now
	return changed
}

// fingerprint hashes the names, sizes and times of the files in view.
func (v *view) fingerprint() [sha256.Size]byte {
	h := sha256.New()
	for _, dir := range v.Dirs {
		entries, err := os.ReadDir(dir)
		fmt.Fprintln(h, dir, err != nil)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if wanted := v.Wants(path); !wanted && !v.mayHoldExtensions(e.Name(), e.Type()) {
				continue
			} else if info, err := e.Info(); wanted && err == nil {
				fmt.Fprintln(h, e.Name(), info.Mode(), info.Size(), info.ModTime().UnixNano())
			} else {
				fmt.Fprintln(h, e.Name(), e.Type())
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// mayHoldExtensions reports whether an entry of that name and type can lead to extensions.
func (v *view) mayHoldExtensions(name string, t os.FileMode) bool {
	return (t.IsDir() || t&os.ModeSymlink != 0) && !slices.Contains(v.Ignore, name)
}

func (w *Watcher) listen(system *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-system.Events:
			if !ok {
				return
			}
			if w.pollReason.Load() == nil && w.view.Load().matches(e) {
				w.notify()
			}
		case err, ok := <-system.Errors:
			if !ok {
				return
			}
			if !errors.Is(err, io.EOF) { // events were probably lost
				w.notify()
			}
		}
	}
}

func (v *view) matches(e fsnotify.Event) bool {
	if v.Wants(e.Name) {
		return true
	}
	if e.Has(fsnotify.Create) {
		info, err := os.Lstat(e.Name)
		return err == nil && v.mayHoldExtensions(info.Name(), info.Mode())
	}
	_, watched := v.dirs[e.Name]
	return watched && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename))
}

func (w *Watcher) notify() {
	select {
	case w.changed <- struct{}{}:
	default: // a signal is pending
	}
}

// Close ends the Watcher and waits for its goroutines. It is idempotent.
func (w *Watcher) Close() {
	w.mu.Lock()
	system, first := w.system, !w.closed
	w.closed = true
	w.mu.Unlock()
	if first {
		close(w.stop)
	}
	if system != nil {
		_ = system.Close()
	}
	w.running.Wait()
}
