package audit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/exthost/exthost/internal/file"
)

// Writable returns an error if a log at path could not be written. It opens an existing file,
// writes and removes a temporary file beside it, and creates no directory.
func Writable(path string) error {
	f, _, err := file.OpenRegular(path, os.O_RDWR, 0)
	switch {
	case err == nil:
		err = f.Close()
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir) // Open would create the missing directories in this one
	}
	probe, err := os.CreateTemp(dir, ".exthost-*")
	if err != nil {
		return err
	}
	_, err = probe.Write(make([]byte, 4096))
	return errors.Join(err, probe.Sync(), probe.Close(), os.Remove(probe.Name()))
}
