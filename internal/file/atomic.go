package file

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// WriteAtomic replaces the content of a file in one step, or creates it with mode 0644 less the umask: readers see the
// old or the new content, even after a crash. An existing file keeps its mode and, as far as permitted, its owner and
// group; a symbolic link stays, and its target is replaced. It fails for a read-only file, a file that is not regular,
// and a dangling link. After an error the old content is still there.
func WriteAtomic(path string, data []byte) error { return write(path, data, 0o644) }

// WritePrivate is like [WriteAtomic] for content that only the owner may read: a new file has mode 0600, and an
// existing one loses the permissions of group and others.
func WritePrivate(path string, data []byte) error { return write(path, data, 0o600) }

func write(path string, data []byte, mode fs.FileMode) error {
	path, old, err := existing(path)
	if err != nil {
		return err
	}
	created := mode
	if old != nil {
		created = 0o600 // until the owner is set
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, created)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if old != nil {
		keepOwner(f, old)
		kept := old.Mode().Perm()
		if mode == 0o600 {
			kept &= 0o700
		}
		err = errors.Join(err, f.Chmod(kept))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(name, path)
	}
	if err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok && at.Path == name {
			at.Path = path // its user knows no other name
		}
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// leftover matches the random end of a temporary file's name, see [rand.Text].
var leftover = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// RemoveTemporary removes the temporary files of killed writes of path. Nothing may write path concurrently.
func RemoveTemporary(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(path)+"-"); ok && leftover.MatchString(rest) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name())) // retried by the next Sweep
		}
	}
}

// existing returns the file that path leads to and its FileInfo, nil if it is new.
func existing(path string) (string, fs.FileInfo, error) {
	refuse := func(why string) (string, fs.FileInfo, error) {
		return "", nil, &fs.PathError{Op: "replace", Path: path, Err: errors.New(why)}
	}
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return refuse("it is a link to a file that does not exist")
		}
		return path, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(target)
	switch {
	case err != nil:
		return "", nil, err
	case !info.Mode().IsRegular():
		return refuse("it is not a regular file")
	case info.Mode().Perm()&0o222 == 0: // root could open it, and a rename replace it
		return refuse("it is read-only")
	}
	f, err := os.OpenFile(target, os.O_WRONLY, 0) // for the same reason
	if err != nil {
		return "", nil, err
	}
	return target, info, f.Close()
}
