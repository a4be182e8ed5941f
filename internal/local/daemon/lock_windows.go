package daemon

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// errLocked is the error of tryLock if another process holds the lock.
var errLocked = errors.New("locked")

// lockedAt is the offset of the byte that is locked, far behind the text: other processes
// cannot read what is locked.
const lockedAt = 1 << 30

// tryLock takes the lock. The system releases it at the end of the process.
func tryLock(f *os.File) error {
	at := &windows.Overlapped{Offset: lockedAt}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errLocked
	}
	return err
}

// owned is true: the state directory is in the user's profile, which others cannot enter.
func owned(fs.FileInfo) bool { return true }
