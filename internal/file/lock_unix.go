//go:build unix

package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// try locks dir. taken reports, along with an error, that another program has the lock.
func try(dir string) (unlock func(), taken bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR), err
	}
	return func() { f.Close() }, false, nil
}
