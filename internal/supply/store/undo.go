package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/file"
)

// undo puts the files back that an exchange has replaced or removed before it failed, and removes those that it added.
// What was saved in their place since stays.
func (s Store) undo(x *exchange) error {
	if x.from == "" {
		defer os.Remove(x.dir) // fails unless empty
	}
	if len(x.done) == 0 {
		return nil
	}
	source := ""
	if x.from != "" {
		var err error
		if source, _, err = s.Verify(x.from); err != nil {
			return err
		}
	}
	in, err := os.OpenRoot(x.dir)
	if err != nil {
		return ignoreMissing(err) // removed meanwhile
	}
	defer in.Close()
	for _, name := range slices.Backward(x.done) {
		if err := x.putBack(in, source, name); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(x.dir, name), err)
		}
	}
	return nil
}

// putBack undoes what the exchange has done to one file.
func (x *exchange) putBack(in *os.Root, source, name string) error {
	info, err := in.Lstat(filepath.FromSlash(name))
	switch {
	case err == nil:
		now := entry{Version: file.VersionOf(info), info: info}
		of, written := x.is[name]
		if !written {
			return nil
		}
		if same, err := x.holds(name, now, of); err != nil || !same {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	_, was := x.was[name]
	if _, found := x.found[name]; !was || !found {
		return file.RemoveIn(in, name)
	}
	if err := stage(in, source, name); err != nil {
		return err
	}
	if err := place(in, name); err != nil {
		return errors.Join(err, in.Remove(filepath.FromSlash(name)+newEnding))
	}
	return nil
}
