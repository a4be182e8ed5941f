//go:build unix

package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// takeLock locks the lock file for this process until the file is closed.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 64))
		f.Close() // read only: the error does not matter
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &lockHeld{strings.TrimSuffix(path, ".lock"), strings.TrimSpace(string(holder))}
		}
		return nil, err
	}
	if err := errors.Join(f.Truncate(0), writePid(f)); err != nil {
		f.Close() // the error before counts
		return nil, err
	}
	return f, nil
}

func writePid(f *os.File) error {
	_, err := fmt.Fprintln(io.NewOffsetWriter(f, 0), os.Getpid())
	return err
}
