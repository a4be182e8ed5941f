package cassette

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/exthost/exthost/internal/file"
)

// maxHeader limits the first line in bytes.
const maxHeader = 4 << 10

// Is reports whether path is a cassette, or can become one because it is empty or does not exist.
func Is(path string) (bool, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil || !info.Mode().IsRegular():
		return false, err
	case info.Size() == 0:
		return true, nil
	}
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close() // opened for reading
	_, err = NewReader(f, maxHeader)
	if _, bad := errors.AsType[*Error](err); bad {
		return false, nil
	}
	return err == nil, err
}

// Written returns an error if a host or a command is writing the cassette at path.
func Written(path string) error {
	f, _, err := file.OpenRegular(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // releases the lock
	if lock(f) {
		return fmt.Errorf("%s is being written, by another host or by exthost calls record: name another file, or end "+
			"that recording", path)
	}
	return nil
}

// Create creates a cassette with mode 0600. It follows no symbolic link. If the file exists, Create returns an error
// that wraps [fs.ErrExist]. With replace, it instead removes a regular file that nobody is writing, and replaced is
// true. Until the file is closed, [Written] returns an error for it.
func Create(path string, replace bool) (f *os.File, replaced bool, err error) {
	if replace {
		switch info, err := os.Lstat(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, false, err
		case !info.Mode().IsRegular():
			return nil, false, fmt.Errorf("%s is no regular file", path)
		default:
			if err := Written(path); err != nil {
				return nil, false, err
			}
			if err := os.Remove(path); err != nil {
				return nil, false, err
			}
			replaced = true
		}
	}
	f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		lock(f) // cannot fail: nobody else has opened the new file
	}
	return f, replaced, err
}
