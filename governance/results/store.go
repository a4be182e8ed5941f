// Package results keeps tool results that are too big to pass, for the caller they
// were for to read page by page.
//
// The page tool ([Tool], [Store.Call]) belongs to the host: it is listed beside the
// tools of extensions while there is a store, and its calls pass governance like
// any other.
package results

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of Options, used where they state 0.
const (
	DefaultQuota  = 256 << 20
	DefaultMaxAge = time.Hour
)

// Options is what a store needs to know.
type Options struct {
	Dir    string        // where the files are, 0600 in a directory of 0700; made when it is not there
	Quota  int64         // bytes of all results; the oldest make room. Default: DefaultQuota
	MaxAge time.Duration // after which a result is gone. Default: DefaultMaxAge
}

// Owner is for whom a result is. A session counts where there is no caller.
type Owner struct{ Caller, Session string }

func (o Owner) key() Owner {
	if o.Caller != "" {
		o.Session = ""
	}
	return o
}

// ErrUnknown says that nothing is kept under a handle for this owner.
var ErrUnknown = errors.New("no result is kept under this handle: it was too old, had to make room, or never was; call the tool again")

// errEvicted says that newer results took the room of one while it was written.
var errEvicted = errors.New("it had to make room for others at once")

// Store keeps results in files. Its methods may be called by many goroutines at
// once. Its owner calls Close.
type Store struct {
	o Options

	mu      sync.Mutex // guards what follows
	kept    map[string]kept
	size    int64
	closed  bool
	expires *time.Timer
}

// kept is one result.
type kept struct {
	owner Owner
	size  int64
	since time.Time
}

const prefix = "result-" // of file names

// Open returns a store over o.Dir. What hosts that have died left there is removed
// once it is too old.
func Open(o Options) (*Store, error) {
	if o.Quota <= 0 {
		o.Quota = DefaultQuota
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	s := &Store{o: o, kept: make(map[string]kept)}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.sweepLocked(time.Now())
}

// Put keeps text for owner and returns the handle under which it is.
func (s *Store) Put(owner Owner, text []byte) (handle string, err error) {
	size := int64(len(text))
	if size > s.o.Quota {
		return "", fmt.Errorf("it has %d bytes, and all results together may have %d", size, s.o.Quota)
	}
	handle = strings.ToLower(rand.Text())
	if err := s.reserve(handle, kept{owner.key(), size, time.Now()}); err != nil {
		return "", err
	}
	f, err := os.OpenFile(s.file(handle), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[handle]; !ok && err == nil {
		err = errEvicted
	}
	if err != nil {
		return "", errors.Join(err, s.removeLocked(handle))
	}
	return handle, nil
}

// reserve makes room for k, at the cost of the oldest.
func (s *Store) reserve(handle string, k kept) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the host is stopping")
	}
	if err := s.sweepLocked(k.since); err != nil {
		return err
	}
	for _, old := range s.byAgeLocked() {
		if s.size+k.size <= s.o.Quota {
			break
		}
		if err := s.removeLocked(old); err != nil {
			return err
		}
	}
	s.kept[handle] = k
	s.size += k.size
	s.scheduleLocked()
	return nil
}

func (s *Store) byAgeLocked() []string {
	return slices.SortedFunc(maps.Keys(s.kept), func(a, b string) int { return s.kept[a].since.Compare(s.kept[b].since) })
}

func (s *Store) file(handle string) string { return filepath.Join(s.o.Dir, prefix+handle) }

// removeLocked forgets a result. A file that cannot be removed now is once it is
// too old.
func (s *Store) removeLocked(handle string) error {
	s.size -= s.kept[handle].size
	delete(s.kept, handle)
	if err := os.Remove(s.file(handle)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepLocked removes what is too old, files of other hosts too.
func (s *Store) sweepLocked(now time.Time) error {
	var errs []error
	for handle, k := range s.kept {
		if now.Sub(k.since) >= s.o.MaxAge {
			errs = append(errs, s.removeLocked(handle))
		}
	}
	entries, err := os.ReadDir(s.o.Dir)
	errs = append(errs, err)
	for _, e := range entries {
		handle, ours := strings.CutPrefix(e.Name(), prefix)
		if _, known := s.kept[handle]; !ours || known {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) >= s.o.MaxAge {
			errs = append(errs, s.removeLocked(handle))
		}
	}
	return errors.Join(errs...)
}

// scheduleLocked sees to it that the oldest result is removed in time.
func (s *Store) scheduleLocked() {
	if s.expires != nil {
		s.expires.Stop()
	}
	if len(s.kept) == 0 || s.closed {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Values(s.kept)), func(a, b kept) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	s.expires = time.AfterFunc(time.Until(oldest.since.Add(s.o.MaxAge)), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			_ = s.sweepLocked(time.Now()) // what fails is tried again by the next
			s.scheduleLocked()
		}
	})
}

// Close removes all results.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.scheduleLocked()
	var errs []error
	for handle := range s.kept {
		errs = append(errs, s.removeLocked(handle))
	}
	return errors.Join(errs...)
}

// Page is a part of a result.
type Page struct {
	Text   string
	Offset int64 // where it begins, in bytes
	Next   int64 // where the next one does; 0 when this is the last
	Total  int64 // bytes of the whole result
}

// Page returns up to limit bytes of the result from offset on: whole characters,
// and if it can be whole lines.
func (s *Store) Page(owner Owner, handle string, offset int64, limit int) (Page, error) {
	s.mu.Lock()
	k, ok := s.kept[handle]
	s.mu.Unlock()
	if !ok || k.owner != owner.key() || time.Since(k.since) >= s.o.MaxAge {
		return Page{}, ErrUnknown
	}
	if offset < 0 || offset > k.size {
		return Page{}, fmt.Errorf("the offset is %d, and the result has %d bytes", offset, k.size)
	}
	f, err := os.Open(s.file(handle))
	if err != nil {
		return Page{}, ErrUnknown // removed meanwhile
	}
	defer f.Close() // was only read
	return readPage(f, offset, limit, k.size)
}
