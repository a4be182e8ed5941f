package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// minRoom is the free space below which a file system counts as full: a record of a log still fits, while a file that
// is written anew may not.
const minRoom = 64 << 10

// NoRoom returns why a file at path can hardly be written or grow; "" if its file system has room, or is not known to
// have none. The file and its directory need not exist.
func NoRoom(path string) string {
	bytes, inodes, err := free(path)
	for errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) { // they would be made in the one above
		path = filepath.Dir(path)
		bytes, inodes, err = free(path)
	}
	switch {
	case err != nil:
		return ""
	case bytes < minRoom:
		return "less than 64 KiB are free"
	case inodes == 0:
		return "no inode is free"
	}
	return ""
}

// IsFull reports whether err means that the disk is full, or what the user may have of it.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Writable returns an error if a file at path could not be written or replaced. It opens an existing file, writes and
// removes a temporary one beside it, and creates no directory.
func Writable(path string) error {
	f, _, err := OpenRegular(path, os.O_RDWR, 0)
	switch {
	case err == nil:
		err = f.Close()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir) // Open would create the missing directories in this one
	}
	probe, err := os.CreateTemp(dir, ".exthost-*")
	if err != nil {
		return err
	}
	_, err = probe.Write(make([]byte, 4096))
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		at.Path = dir
	}
	return errors.Join(err, probe.Sync(), probe.Close(), os.Remove(probe.Name()))
}
