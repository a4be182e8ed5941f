// Package results stores tool results that are too long to return, so that their caller can
// read them page by page.
//
// The page tool ([Tool], [Store.Call]) belongs to the host: it is listed with the tools of
// extensions while a store exists, and its calls pass governance like any other.
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

// Defaults of the fields of Options that are 0.
const (
	DefaultQuota  = 256 << 20
	DefaultMaxAge = time.Hour
)

// Options configure a [Store].
type Options struct {
	Dir    string        // directory of the files, which have mode 0600; created with mode 0700
	Quota  int64         // bytes of all results; the oldest are removed. Default: DefaultQuota
	MaxAge time.Duration // age at which a result is removed. Default: DefaultMaxAge
	// this host's name in its cluster, the prefix of handles for callers of other nodes; "" without a cluster
	Node string
}

// Owner identifies who may read a result. Session must match for anonymous callers only.
type Owner struct {
	Node    string // the cluster node of the caller; "" for this host
	Caller  string
	Session string
}

// Source is the call whose result is stored, as policies see it.
type Source struct{ Extension, Tool string }

func (o Owner) key() Owner {
	if o.Caller != "" {
		o.Session = ""
	}
	return o
}

// ErrUnknown is returned for a handle without a result of this owner.
var ErrUnknown = errors.New("no result is kept under this handle: it was too old, had to make room, or never was; " +
	"call the tool again")

// errEvicted is returned by Put when newer results evicted this one while it was being written.
var errEvicted = errors.New("it had to make room for others at once")

// Store keeps results in files. Its methods are safe for concurrent use. The owner must call Close.
type Store struct {
	o Options

	mu      sync.Mutex // guards the fields below
	entries map[string]entry
	size    int64
	closed  bool
	expires *time.Timer
}

type entry struct {
	owner Owner
	of    Source
	size  int64
	since time.Time
}

const prefix = "result-" // of file names

// Open returns a store over o.Dir. Files left by other hosts are removed at MaxAge.
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
	s := &Store{o: o, entries: make(map[string]entry)}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s, s.sweepLocked(time.Now())
}

// Put stores text, the text of a result for owner, and returns its handle: NODE/HANDLE if the owner
// is at another node.
func (s *Store) Put(owner Owner, of Source, text []byte) (handle string, err error) {
	size := int64(len(text))
	if size > s.o.Quota {
		return "", fmt.Errorf("it has %d bytes, and all results together may have %d", size, s.o.Quota)
	}
	handle = strings.ToLower(rand.Text())
	if err := s.reserve(handle, entry{owner.key(), of, size, time.Now()}); err != nil {
		return "", err
	}
	f, err := os.OpenFile(s.file(handle), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.entries[handle]; !ok && err == nil {
		err = errEvicted
	}
	if err != nil {
		return "", errors.Join(err, s.removeLocked(handle))
	}
	if owner.Node != "" && s.o.Node != "" {
		handle = s.o.Node + "/" + handle
	}
	return handle, nil
}

// reserve makes room for e by removing the oldest results.
func (s *Store) reserve(handle string, e entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("the host is stopping")
	}
	if err := s.sweepLocked(e.since); err != nil {
		return err
	}
	oldest := slices.SortedFunc(maps.Keys(s.entries),
		func(a, b string) int { return s.entries[a].since.Compare(s.entries[b].since) })
	for _, old := range oldest {
		if s.size+e.size <= s.o.Quota {
			break
		}
		if err := s.removeLocked(old); err != nil {
			return err
		}
	}
	s.entries[handle] = e
	s.size += e.size
	s.scheduleLocked()
	return nil
}

func (s *Store) file(handle string) string { return filepath.Join(s.o.Dir, prefix+handle) }

// removeLocked removes a result. When its file cannot be removed, a later sweep retries.
func (s *Store) removeLocked(handle string) error {
	s.size -= s.entries[handle].size
	delete(s.entries, handle)
	if err := os.Remove(s.file(handle)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepLocked removes results and files older than MaxAge, including files of other hosts.
func (s *Store) sweepLocked(now time.Time) error {
	var errs []error
	for handle, e := range s.entries {
		if now.Sub(e.since) >= s.o.MaxAge {
			errs = append(errs, s.removeLocked(handle))
		}
	}
	entries, err := os.ReadDir(s.o.Dir)
	errs = append(errs, err)
	for _, e := range entries {
		handle, ours := strings.CutPrefix(e.Name(), prefix)
		if _, known := s.entries[handle]; !ours || known {
			continue
		}
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) >= s.o.MaxAge {
			errs = append(errs, s.removeLocked(handle))
		}
	}
	return errors.Join(errs...)
}

// scheduleLocked sets the timer for the next expiry.
func (s *Store) scheduleLocked() {
	if s.expires != nil {
		s.expires.Stop()
	}
	if len(s.entries) == 0 || s.closed {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Values(s.entries)),
		func(a, b entry) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	s.expires = time.AfterFunc(time.Until(oldest.since.Add(s.o.MaxAge)), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			_ = s.sweepLocked(time.Now()) // the next sweep retries
			s.scheduleLocked()
		}
	})
}

// Source returns the call that produced handle, or the zero Source.
func (s *Store) Source(handle string) Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[handle].of
}

// Close removes all results.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.scheduleLocked()
	var errs []error
	for handle := range s.entries {
		errs = append(errs, s.removeLocked(handle))
	}
	return errors.Join(errs...)
}

// Page is a part of a result.
type Page struct {
	Text   string
	Offset int64 // of Text in the result, in bytes
	Next   int64 // offset of the next page; 0 on the last
	Total  int64 // bytes of the whole result
}

// Page returns up to limit bytes of the result from offset on, in whole characters and, if
// possible, whole lines.
func (s *Store) Page(owner Owner, handle string, offset int64, limit int) (Page, error) {
	s.mu.Lock()
	e, ok := s.entries[handle]
	s.mu.Unlock()
	if !ok || e.owner != owner.key() || time.Since(e.since) >= s.o.MaxAge {
		return Page{}, ErrUnknown
	}
	if offset < 0 || offset > e.size {
		return Page{}, fmt.Errorf("the offset is %d, and the result has %d bytes", offset, e.size)
	}
	f, err := os.Open(s.file(handle))
	if err != nil {
		return Page{}, ErrUnknown // removed meanwhile
	}
	defer f.Close() // read only: the error does not matter
	return readPage(f, offset, limit, e.size)
}
