// Package rotate bounds files that only grow: it sets a full one aside and keeps a number of
// the latest.
package rotate

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/exthost/exthost/internal/file/regular"
)

// Name returns the name of the nth file that was set aside, 1 for the latest.
func Name(path string, n int) string { return path + "." + strconv.Itoa(n) }

// Shift sets path aside as its .1, increments the number of the older files, and removes those
// beyond keep, also those of a larger keep before. With keep 0 it removes path. It may be
// called again after an error.
func Shift(path string, keep int) error {
	if _, err := os.Lstat(path); err == nil {
		for i := keep; i > 0; i-- {
			from := path
			if i > 1 {
				from = Name(path, i-1)
			}
			if err := os.Rename(from, Name(path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if keep == 0 {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for i := keep + 1; os.Remove(Name(path, i)) == nil; i++ { // left from a larger keep
	}
	return nil
}

// File is a file of bounded size that is appended to. It is safe for concurrent use. Several
// processes may append to one path: each goes on with the new file after one of them, or
// another program such as logrotate, has set the file aside.
type File struct {
	path string
	max  int64
	keep int

	mu   sync.Mutex // guards f
	f    *os.File
	info fs.FileInfo // of f
}

// Open opens path for appending; the file is created for this user alone. Before a write that
// would make it larger than max bytes it is set aside, and keep such files are kept.
func Open(path string, max int64, keep int) (*File, error) {
	f := &File{path: path, max: max, keep: keep}
	return f, f.reopen()
}

// Write appends p in one piece. When the file cannot be set aside it goes on growing, because
// a record must not be lost for that; the next write tries again.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := os.Stat(f.path)
	if err != nil || !os.SameFile(now, f.info) { // set aside by another
		if err := f.reopen(); err == nil {
			now = f.info
		}
	}
	if now != nil && now.Size() > 0 && now.Size()+int64(len(p)) > f.max && Shift(f.path, f.keep) == nil {
		_ = f.reopen() // else the file that was set aside goes on
	}
	return f.f.Write(p)
}

// reopen goes on with the file that path names now.
func (f *File) reopen() error {
	next, info, err := regular.Open(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if f.f != nil {
		f.f.Close()
	}
	f.f, f.info = next, info
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}
