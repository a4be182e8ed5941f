// Package regular reads regular files and refuses all others, without waiting for
// a FIFO's writer.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// NotRegular is the error for a file of another kind. Its text completes "the file
// is".
type NotRegular string

func (e NotRegular) Error() string { return string(e) }

// Read returns at most limit bytes of a regular file, and which file they are of.
// Unless followLinks is set, a symbolic link is [NotRegular].
func Read(path string, limit int64, followLinks bool) ([]byte, fs.FileInfo, error) {
	flags := os.O_RDONLY | nonBlocking // opening a FIFO would wait for a writer
	if !followLinks {
		flags |= noFollow
	}
	f, err := os.OpenFile(path, flags, 0)
	switch {
	case errors.Is(err, syscall.ELOOP) && !followLinks:
		return nil, nil, NotRegular("a symbolic link, and links are not followed here")
	case errors.Is(err, syscall.ENXIO): // a socket
		return nil, nil, NotRegular("not a regular file")
	case err != nil:
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = NotRegular("a " + kind(info.Mode()) + ", not a regular file")
	}
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return data, info, err
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

// Exhausted reports whether err is a lack of this process or system, such as of file
// descriptors, and says nothing about the file.
func Exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
