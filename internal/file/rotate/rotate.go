// Package rotate bounds the size of log files: it rotates a full file and keeps a number of old ones.
package rotate

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"github.com/exthost/exthost/internal/file/regular"
)

// Name returns the name of the nth old file, 1 being the latest.
func Name(path string, n int) string { return path + "." + strconv.Itoa(n) }

// Shift renames path to its .1, increments the numbers of older files, and removes those beyond keep, even if an
// earlier keep was larger. With keep 0 it removes path. It may be called again after an error.
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
	for i := keep + 1; os.Remove(Name(path, i)) == nil; i++ { // after keep was lowered
	}
	return nil
}

// File is an append-only file of bounded size. It is safe for concurrent use, also by several processes: each continues
// with the new file after another one, or a program such as logrotate, has rotated it.
type File struct {
	path string
	max  int64
	keep int

	mu   sync.Mutex // guards f
	f    *os.File
	info fs.FileInfo // of f
}

// Open opens path for appending; a new file gets mode 0600. It is rotated before a write that would make it larger than
// max bytes, and keep old files are kept.
func Open(path string, max int64, keep int) (*File, error) {
	f := &File{path: path, max: max, keep: keep}
	return f, f.reopen()
}

// Write appends p in one write. If the rotation fails the file keeps growing, so that no record is lost; the next write
// tries again.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := os.Stat(f.path)
	if err != nil || !os.SameFile(now, f.info) { // rotated by another process
		if err := f.reopen(); err == nil {
			now = f.info
		}
	}
	if now != nil && now.Size() > 0 && now.Size()+int64(len(p)) > f.max && Shift(f.path, f.keep) == nil {
		_ = f.reopen() // on failure, the old file is used further
	}
	return f.f.Write(p)
}

// reopen continues with the file that path names now.
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
