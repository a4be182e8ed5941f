//go:build unix

package cassette

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock marks a file as being written, until it is closed or this process ends. It reports whether
// another one writes it. A file system without locks tells of none.
func lock(f *os.File) (taken bool) {
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}
