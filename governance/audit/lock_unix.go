//go:build unix

package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/file"
)

// takeLock locks the lock file for this process until the file is closed.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flockSoon(f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 64))
		f.Close() // read only: the error does not matter
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &lockHeld{strings.TrimSuffix(path, ".lock"), strings.TrimSpace(string(holder))}
		}
		return nil, err
	}
	if err := errors.Join(f.Truncate(0), writePid(f)); err != nil {
		f.Close() // err above is the one to report
		return nil, err
	}
	return f, nil
}

func writePid(f *os.File) error {
	_, err := fmt.Fprintln(io.NewOffsetWriter(f, 0), os.Getpid())
	return err
}

// flockSoon locks f. While only readers hold the lock, it retries for up to a second: [written]
// takes the lock as a reader for a moment.
func flockSoon(f *os.File) (err error) {
	for range 500 {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
			return err // a writer holds it
		}
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // else two waiting writers would block each other
		<-time.After(2 * time.Millisecond)
	}
	return err
}

// written reports whether a process has the log at path open for writing.
func written(path string) bool {
	f, _, err := file.OpenRegular(path+".lock", os.O_RDONLY, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() // which unlocks it
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
