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

// Places is where a [Watcher] looks.
type Places struct {
	Dirs   []string               // absolute; what is below their subdirectories is not looked at
	Ignore []string               // base names of directories whose coming is of no interest
	Wants  func(path string) bool // whether a change of this file is of interest; quick, and called by another goroutine
}

// Watcher tells that something may have changed on disk. It does not say what: who
// is told looks again, so that events that are lost, come twice or in thousands do no
// harm. New, removed and renamed directories count, and files that [Places] wants; a
// file that was replaced by renaming another is one that was written.
type Watcher struct {
	changed  chan struct{} // holds a token when something may have changed
	interval time.Duration // of polling
	add      func(system *fsnotify.Watcher, dir string) error
	stop     chan struct{}
	running  sync.WaitGroup

	view atomic.Pointer[view]

	mu     sync.Mutex // guards what follows
	system *fsnotify.Watcher
	polls  error // why the system does not tell; nil when it does
	closed bool
}

// view is where a Watcher looks.
type view struct {
	Places
	dirs map[string]struct{} // the same as Dirs
}

// pollInterval is how often a Watcher that the system tells nothing looks.
const pollInterval = 2 * time.Second

// NewWatcher returns a Watcher that looks nowhere yet. It must be closed.
func NewWatcher() *Watcher {
	w := &Watcher{changed: make(chan struct{}, 1), interval: pollInterval, stop: make(chan struct{}), add: (*fsnotify.Watcher).Add}
	w.view.Store(new(view))
	return w
}

// Changed holds a token when something may have changed since it was last taken.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Watch looks at p, instead of where it looked before. What changes from now on is
// told; what changed before, and since p was put together, is for the caller to find
// out afterwards. Where the system has no more watches to give, or none at all, the
// Watcher looks by itself every two seconds from then on, and the error says why; it
// is no failure.
func (w *Watcher) Watch(p Places) (polls error) {
	now := &view{Places: p, dirs: make(map[string]struct{}, len(p.Dirs))}
	for _, dir := range p.Dirs {
		now.dirs[dir] = struct{}{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.view.Swap(now)
	switch {
	case w.closed:
		return nil
	case w.polls != nil:
		return w.polls
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
			_ = w.system.Remove(dir) // which is not there any more, mostly
		}
	}
	for _, dir := range p.Dirs { // those there were too: they may have been made anew since
		if err := w.add(w.system, dir); isLimit(err) {
			return w.poll(fmt.Errorf("%s: %w", dir, err))
		}
	}
	return nil
}

// isLimit reports whether err says that the system gives no more watches. Others,
// such as that of a directory that has just gone, concern that directory alone.
func isLimit(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// poll makes the Watcher look by itself, because of err; mu is held.
func (w *Watcher) poll(err error) error {
	w.polls = err
	system := w.system
	w.system = nil
	seen := w.view.Load().picture()
	w.running.Go(func() {
		if system != nil {
			_ = system.Close() // not under mu, which its events wait for
		}
		w.look(seen)
	})
	return err
}

// look is the polling.
func (w *Watcher) look(seen [sha256.Size]byte) {
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		if now := w.view.Load().picture(); now != seen {
			seen = now
			w.tell()
		}
	}
}

// picture tells what is in view from what was, as far as names,
// sizes and times do.
func (v *view) picture() [sha256.Size]byte {
	h := sha256.New()
	for _, dir := range v.Dirs {
		entries, err := os.ReadDir(dir)
		fmt.Fprintln(h, dir, err != nil)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if wanted := v.Wants(path); !wanted && !v.isFolder(e.Name(), e.Type()) {
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

// isFolder reports whether something of that name and type may lead to extensions.
func (v *view) isFolder(name string, t os.FileMode) bool {
	return (t.IsDir() || t&os.ModeSymlink != 0) && !slices.Contains(v.Ignore, name)
}

// listen passes on what the system tells.
func (w *Watcher) listen(system *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-system.Events:
			if !ok {
				return
			}
			if w.view.Load().counts(e) {
				w.tell()
			}
		case err, ok := <-system.Errors:
			if !ok {
				return
			}
			if !errors.Is(err, io.EOF) { // events were lost, most likely
				w.tell()
			}
		}
	}
}

// counts reports whether an event is of interest.
func (v *view) counts(e fsnotify.Event) bool {
	if v.Wants(e.Name) {
		return true
	}
	if e.Has(fsnotify.Create) {
		info, err := os.Lstat(e.Name)
		return err == nil && v.isFolder(info.Name(), info.Mode())
	}
	_, watched := v.dirs[e.Name]
	return watched && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename))
}

func (w *Watcher) tell() {
	select {
	case w.changed <- struct{}{}:
	default: // it has been told
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
