package file

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
)

// RotatedName returns the name of the nth old file, 1 being the latest.
func RotatedName(path string, n int) string { return path + "." + strconv.Itoa(n) }

// Rotate renames path to its .1, increments the numbers of older files, and removes those beyond keep, even if an
// earlier keep was larger. With keep 0 it removes path. It may be called again after an error.
func Rotate(path string, keep int) error {
	if _, err := os.Lstat(path); err == nil {
		for i := keep; i > 0; i-- {
			from := path
			if i > 1 {
				from = RotatedName(path, i-1)
			}
			if err := os.Rename(from, RotatedName(path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if keep == 0 {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	for i := keep + 1; os.Remove(RotatedName(path, i)) == nil; i++ { // after keep was lowered
	}
	return nil
}

// Rotating is an append-only file of bounded size. It is safe for concurrent use, also by several processes: each
// continues with the new file after another one, or a program such as logrotate, has rotated it.
type Rotating struct {
	path string
	max  int64
	keep int

	mu   sync.Mutex // guards the fields below
	f    *os.File
	info fs.FileInfo // of f
	torn bool        // the last write, of a full disk, left a part of its record
}

// OpenRotating opens path for appending; a new file gets mode 0600. It is rotated before a write that would make it
// larger than max bytes, and keep old files are kept.
func OpenRotating(path string, max int64, keep int) (*Rotating, error) {
	f := &Rotating{path: path, max: max, keep: keep}
	return f, f.reopen()
}

// Write appends p in one write. If the rotation fails the file keeps growing, so that no record is lost; the next write
// tries again.
func (f *Rotating) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := os.Stat(f.path)
	if err != nil || !os.SameFile(now, f.info) { // rotated by another process
		if err := f.reopen(); err == nil {
			now = f.info
		}
	}
	if now != nil && now.Size() > 0 && now.Size()+int64(len(p)) > f.max && Rotate(f.path, f.keep) == nil {
		_ = f.reopen() // on failure, the old file is used further
	}
	record := p
	if f.torn { // so that the part is a line of its own
		record = slices.Concat([]byte("\n"), p)
	}
	n, err := f.f.Write(record)
	if n > 0 {
		f.torn = n < len(record)
	}
	return min(n, len(p)), err
}

// reopen continues with the file that path names now.
func (f *Rotating) reopen() error {
	next, info, err := OpenRegular(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if f.f != nil {
		f.f.Close()
	}
	f.f, f.info, f.torn = next, info, false
	return nil
}

// Close closes the file.
func (f *Rotating) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Close()
}
