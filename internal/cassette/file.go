package cassette

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Create creates the file of a cassette, which its owner alone may read. It follows no link. An
// existing file is an error that wraps [fs.ErrExist], or with replace is removed before if it is a
// regular one; replaced says so.
func Create(path string, replace bool) (f *os.File, replaced bool, err error) {
	if replace {
		switch info, err := os.Lstat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, false, err
		case !info.Mode().IsRegular():
			return nil, false, fmt.Errorf("%s is no regular file", path)
		default:
			if err := os.Remove(path); err != nil {
				return nil, false, err
			}
			replaced = true
		}
	}
	f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // O_EXCL follows no link
	return f, replaced, err
}
