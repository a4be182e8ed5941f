//go:build unix

package cassette

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks f until it is closed or this process ends. It reports whether another process holds the lock.
// Without lock support in the file system it always returns false.
func lock(f *os.File) (taken bool) {
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
