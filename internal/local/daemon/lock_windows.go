package daemon

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// errLocked is returned by tryLock if another process holds the lock.
var errLocked = errors.New("locked")

// lockedAt is the offset of the locked byte, far beyond the text, because other processes cannot read a locked
// range.
const lockedAt = 1 << 30

// tryLock takes the lock. The system releases it when the process ends.
func tryLock(f *os.File) error {
	at := &windows.Overlapped{Offset: lockedAt}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

// owned returns true, because the state directory is in the user's profile, which others cannot access.
func owned(fs.FileInfo) bool { return true }
