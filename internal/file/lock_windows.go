package file

import (
	"errors"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lockName is a file that exists while a directory is locked. No other program can open it for writing, and the system
// removes it when its creator closes it or ends.
const lockName = ".exthost-lock"

// try locks dir. taken reports, along with an error, that another program has the lock.
func try(dir string) (unlock func(), taken bool, err error) {
	path, err := windows.UTF16PtrFromString(filepath.Join(dir, lockName))
	if err != nil {
		return nil, false, err
	}
	h, err := windows.CreateFile(path, windows.GENERIC_WRITE|windows.DELETE, windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_HIDDEN|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
	if err != nil { // also denied while the file is being removed
		return nil, errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED), err
	}
	return func() { _ = windows.CloseHandle(h) }, false, nil
}
