package file

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// RemoveIn removes the file of that name, with slashes, in root, and the directories that it leaves empty. A missing
// file is no error.
func RemoveIn(root *os.Root, name string) error {
	if err := root.Remove(filepath.FromSlash(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if root.Remove(filepath.FromSlash(dir)) != nil {
			break // it holds something else
		}
	}
	return nil
}

// Same reports whether two paths lead to one file or directory.
func Same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
