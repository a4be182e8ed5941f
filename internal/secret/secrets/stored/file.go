package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/text/envfile"
)

// File reads secrets from a file of NAME=value lines, or from a directory with one file per secret. Only this
// user and root may be able to read or write the files, unless Owners allows more.
type File struct {
	Path   string
	Owners ownership.Rule
}

// Lookup returns a secret's value. The error is a [*secrets.Error].
func (f File) Lookup(_ context.Context, name string) (string, error) {
	value, err := f.value(name)
	if err != nil {
		return "", f.refuse(name, err)
	}
	return value, nil
}

// Check is Lookup without the value.
func (f File) Check(name string) error {
	_, err := f.Lookup(context.Background(), name)
	return err
}

// Names returns the sorted names of the secrets.
func (f File) Names() (names []string, err error) {
	if f.directory() {
		entries, err := os.ReadDir(f.Path)
		for _, e := range entries {
			if info, wrong := os.Stat(filepath.Join(f.Path, e.Name())); wrong == nil && info.Mode().IsRegular() &&
				secrets.CheckName(e.Name()) == nil {
				names = append(names, e.Name())
			}
		}
		return names, err
	}
	all, err := f.lines()
	return slices.Sorted(maps.Keys(all)), err
}

// HowToSet tells the user how to set a secret, as this program does not write here.
func (f File) HowToSet(name string) string {
	if f.directory() {
		return "write it to " + filepath.Join(f.Path, name)
	}
	return fmt.Sprintf("write a line %s=… into %s", name, f.Path)
}

func (f File) directory() bool {
	info, err := os.Stat(f.Path)
	return err == nil && info.IsDir()
}

func (f File) refuse(name string, err error) error {
	e := &secrets.Error{Message: fmt.Sprintf("the secret %s: %v", name, err), Next: f.HowToSet(name)}
	if refused, ok := errors.AsType[*ownership.Refused](err); ok {
		e.Message, e.Next = fmt.Sprintf("the secret %s: %s: %s", name, refused.Path, refused.Message), refused.Hint
	} else if errors.Is(err, fs.ErrNotExist) {
		e.Message = fmt.Sprintf("the secret %s is not in %s", name, f.Path)
	}
	return e
}

func (f File) value(name string) (string, error) {
	if f.Path == "" {
		return "", errors.New("secrets.path is not set")
	}
	if f.directory() {
		return f.file(name)
	}
	all, err := f.lines()
	if err != nil {
		return "", err
	}
	value, ok := all[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return secrets.Value([]byte(value))
}

func (f File) lines() (map[string]string, error) {
	if refused := f.Owners.Secret(f.Path); refused != nil {
		return nil, refused
	}
	return envfile.Read(f.Path, "")
}

// file reads a file in the directory. Symbolic links must stay within the directory, as they do in Kubernetes
// mounts.
func (f File) file(name string) (string, error) {
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", filepath.Join(f.Path, name))
	}
	if err != nil {
		return "", err
	}
	if refused := f.Owners.Secret(filepath.Join(f.Path, name)); refused != nil {
		return "", refused
	}
	file, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, secrets.MaxValue+3)) // plus a line break
	if err != nil {
		return "", err
	}
	return secrets.Value(data)
}
