package dirlock

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockName is the file that exists while a directory is locked: no second program can open it for
// writing, and the system removes it when the first one closes it or ends.
const lockName = ".exthost-lock"

// try reports with its error whether another program has the lock.
func try(dir string) (unlock func(), taken bool, err error) {
	path, err := windows.UTF16PtrFromString(filepath.Join(dir, lockName))
	if err != nil {
		return nil, false, err
	}
	h, err := windows.CreateFile(path, windows.GENERIC_WRITE|windows.DELETE, windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_HIDDEN|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil { // access is denied also to a file that is being removed
		return nil, errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED), err
	}
	return func() { _ = windows.CloseHandle(h) }, false, nil
}
