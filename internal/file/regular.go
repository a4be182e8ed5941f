package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// NotRegular is the error for other kinds of files. Its text completes "the file is".
type NotRegular string

func (e NotRegular) Error() string { return string(e) }

// ReadRegular returns at most limit bytes of a regular file, and its FileInfo, without blocking on a FIFO. Unless
// followLinks is set, a symbolic link is [NotRegular].
func ReadRegular(path string, limit int64, followLinks bool) ([]byte, fs.FileInfo, error) {
	flags := os.O_RDONLY
	if !followLinks {
		flags |= noFollow
	}
	f, info, err := open(path, flags, 0, 0)
	if errors.Is(err, syscall.ELOOP) && !followLinks {
		err = NotRegular("a symbolic link, and links are not followed here")
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, info, err
}

// ReadRegularIn returns at most limit bytes of a regular file below root, and its FileInfo, without blocking on a FIFO.
// Symbolic links are followed as far as they stay below root.
func ReadRegularIn(root *os.Root, name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, info, err
}

// OpenRegular is like [os.OpenFile], for regular files and devices only, and also returns the FileInfo. For other
// files, the error names the file and its kind. It does not block on a FIFO.
func OpenRegular(path string, flags int, mode fs.FileMode) (*os.File, fs.FileInfo, error) {
	f, info, err := open(path, flags, mode, fs.ModeDevice|fs.ModeCharDevice)
	if kind, ok := errors.AsType[NotRegular](err); ok {
		err = fmt.Errorf("%s is %w", path, kind)
	}
	return f, info, err
}

// open opens a file that is regular or of one of the kinds in others.
func open(path string, flags int, mode, others fs.FileMode) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, flags|nonBlocking, mode) // opening a FIFO would block
	if errors.Is(err, syscall.ENXIO) {                   // a socket, or a FIFO without reader
		info, statErr := os.Stat(path)
		if statErr != nil {
			return nil, nil, statErr
		}
		return nil, nil, notRegular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Type()&^others != 0 {
		err = notRegular(info)
	}
	if err != nil {
		f.Close() // nothing was written
		return nil, nil, err
	}
	return f, info, nil
}

func notRegular(info fs.FileInfo) error {
	return NotRegular("a " + kind(info.Mode()) + ", not a regular file")
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// Exhausted reports whether err means that this process or the system is out of a resource such as file descriptors, so
// that it says nothing about the file.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
