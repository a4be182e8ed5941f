package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/supply/store"
)

// Uses lists the directories whose lock files may refer to trees in a store: packages were added, fetched or run
// there. It decides when [Uses.Release] may remove a tree.
type Uses struct {
	Path  string // file with the list
	Store store.Store
}

const maxUses = 1 << 20 // bytes

func (u Uses) read() (dirs []string, err error) {
	data, _, err := file.ReadRegular(u.Path, maxUses, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &dirs); err != nil {
		return nil, fmt.Errorf("%s cannot be read; remove it: %w", u.Path, err)
	}
	return dirs, nil
}

// Add adds a directory to the list.
func (u Uses) Add(dir string) error {
	if dirs, err := u.read(); err != nil || slices.Contains(dirs, dir) {
		return err
	}
	home := filepath.Dir(u.Path)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	unlock, err := file.LockDir(home)
	if err != nil {
		return err
	}
	defer unlock()
	dirs, err := u.read() // again under the lock: another program may have changed it
	if err != nil || slices.Contains(dirs, dir) {
		return err
	}
	dirs = slices.DeleteFunc(dirs, func(d string) bool {
		_, err := os.Lstat(filepath.Join(d, FileName))
		return errors.Is(err, fs.ErrNotExist)
	})
	data, err := json.Marshal(append(dirs, dir))
	if err != nil {
		return err
	}
	return file.WritePrivate(u.Path, data)
}

// Release removes a tree from the store unless a lock file refers to it, and returns the files that stay: see
// [store.Store.Remove]. It keeps the tree if any lock file cannot be read.
func (u Uses) Release(tree string, copies ...store.Copy) (left store.Left, err error) {
	dirs, err := u.read()
	if err != nil || tree == "" {
		return left, err
	}
	for _, dir := range dirs {
		f, err := Read(dir)
		if err != nil {
			return left, nil // reported when that directory's extensions start
		}
		for _, e := range f.Extensions {
			if e.Tree == tree {
				return left, nil
			}
		}
	}
	return u.Store.Remove(tree, copies...)
}
