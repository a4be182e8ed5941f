package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RelativeBelow returns path relative to the absolute dir, or an error if path leads out of dir. It does not look at
// the disk.
func RelativeBelow(dir, path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(dir, abs)
	if err != nil || !filepath.IsLocal(rel) || rel == "." {
		return "", fmt.Errorf("%s is not below %s", path, dir)
	}
	return rel, nil
}

// Below resolves path for writing a file below dir, whose configuration names it: it returns the path with the symbolic
// links of its directory resolved, as far as the directory exists. Links that lead out of dir, a file that is a link
// and one that is not regular are errors. With dir "" it returns path. It creates nothing.
//
// A process that replaces directories below dir after Below returns can still escape.
func Below(dir, path string) (string, error) {
	if dir == "" {
		return path, nil
	}
	if err := CheckBelow(dir, path); err != nil {
		return "", err
	}
	parent, missing := filepath.Dir(path), ""
	for {
		real, err := filepath.EvalSymlinks(parent)
		if err == nil {
			return filepath.Join(real, missing, filepath.Base(path)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || parent == filepath.Dir(parent) {
			return "", err
		}
		parent, missing = filepath.Dir(parent), filepath.Join(filepath.Base(parent), missing)
	}
}

// CheckBelow is [Below] without its result. A missing file is no error.
func CheckBelow(dir, path string) error {
	if dir == "" {
		return nil
	}
	rel, err := RelativeBelow(dir, path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() // read only
	switch info, err := root.Lstat(rel); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return outside(dir, path, err)
	case info.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link, and the file of a directory's configuration is not written through "+
			"one: remove it", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	}
	return nil
}

// CheckBelowHere is [CheckBelow] for a path below the working directory, whose links may be another person's. Other
// paths pass, since the user named them.
func CheckBelowHere(path string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := RelativeBelow(dir, path); err != nil {
		return nil
	}
	return CheckBelow(dir, path)
}

func outside(dir, path string, err error) error {
	return fmt.Errorf("%s may lead out of %s by a link, and is not written: %w", path, dir, err)
}
