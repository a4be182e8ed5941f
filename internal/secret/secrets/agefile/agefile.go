// Package agefile keeps secrets in a file encrypted with age. The key is in a separate file that only the user
// can access.
package agefile

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"filippo.io/age"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/secret/secrets"
)

// Store is an encrypted file and its key file. It is safe for concurrent use by goroutines and programs.
type Store struct {
	Path     string // encrypted file
	Identity string // key file
}

// errUnset is returned by a store without paths.
var errUnset = errors.New("there is no directory of the user's configuration to keep it in; state secrets.path and " +
	"secrets.identity")

// version of the file format. Files with any other version are refused.
const version = 1

// maxFile limits the encrypted file, in bytes.
const maxFile = 16 << 20

// content is the decrypted JSON. Values are []byte, so that encoding cannot change them.
type content struct {
	Version int               `json:"version"`
	Secrets map[string][]byte `json:"secrets"`
}

// Lookup returns a secret's value. The error is a [*secrets.Error].
func (s Store) Lookup(_ context.Context, name string) (string, error) {
	c, err := s.read()
	if err != nil {
		e := &secrets.Error{Message: fmt.Sprintf("the secret %s: %v", name, err)}
		if refused, ok := errors.AsType[*refusal](err); ok {
			e.Message, e.Next = fmt.Sprintf("the secret %s: %s", name, refused.message), refused.next
		}
		return "", e
	}
	value, ok := c.Secrets[name]
	if !ok {
		return "", &secrets.Error{
			Message: fmt.Sprintf("the secret %s is not stored", name),
			Next:    "exthost secret set " + name,
			Missing: true,
		}
	}
	return string(value), nil
}

// Check is Lookup without the value.
func (s Store) Check(name string) error {
	_, err := s.Lookup(context.Background(), name)
	return err
}

// Names returns the sorted names of the secrets.
func (s Store) Names() ([]string, error) {
	c, err := s.read()
	return slices.Sorted(maps.Keys(c.Secrets)), err
}

// Set stores a secret, replacing an earlier value. It creates the key file if needed.
func (s Store) Set(name, value string) error {
	return s.change(file.LockDir, func(c *content) error {
		c.Secrets[name] = []byte(value)
		return nil
	})
}

// Get returns a secret's value. The error wraps [fs.ErrNotExist] if there is none.
func (s Store) Get(name string) (string, error) {
	c, err := s.read()
	if err != nil {
		return "", err
	}
	value, ok := c.Secrets[name]
	if !ok {
		return "", fs.ErrNotExist
	}
	return string(value), nil
}

// Update replaces a secret by the result of change, under the lock. exists reports whether the secret existed.
// Update waits for the lock until ctx ends.
func (s Store) Update(ctx context.Context, name string, change func(value string, exists bool) (string, error)) error {
	wait := func(dir string) (func(), error) { return file.LockDirContext(ctx, dir) }
	return s.change(wait, func(c *content) error {
		value, exists := c.Secrets[name]
		next, err := change(string(value), exists)
		if err == nil {
			c.Secrets[name] = []byte(next)
		}
		return err
	})
}

// Remove removes a secret. The error wraps [fs.ErrNotExist] if there is none.
func (s Store) Remove(name string) error {
	if c, err := s.read(); err != nil || c.Secrets[name] == nil { // before creating any directory
		return cmp.Or(err, error(fs.ErrNotExist))
	}
	return s.change(file.LockDir, func(c *content) error {
		if c.Secrets[name] == nil {
			return fs.ErrNotExist
		}
		delete(c.Secrets, name)
		return nil
	})
}

// change applies change to the file under the lock of both directories. Readers see the file as it was before or
// after the change.
func (s Store) change(lock locker, change func(*content) error) error {
	if s.Path == "" || s.Identity == "" {
		return errUnset
	}
	unlock, err := s.lockWith(lock)
	defer unlock()
	if err != nil {
		return err
	}
	c, err := s.read()
	if err != nil {
		return err
	}
	if err := change(&c); err != nil {
		return err
	}
	to, err := s.recipients()
	if err != nil {
		return err
	}
	return s.write(c, to)
}

type locker func(dir string) (unlock func(), err error)

// lockWith creates and locks the directories of both files, in an order shared by all programs.
func (s Store) lockWith(lock locker) (unlock func(), err error) {
	var unlocks []func()
	unlock = func() {
		for _, f := range unlocks {
			f()
		}
	}
	var dirs []string
	for _, path := range []string{s.Path, s.Identity} {
		dir := filepath.Dir(path)
		if err := makeDirectory(dir); err != nil {
			return unlock, err
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return unlock, err
		}
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		one, err := lock(dir)
		if err != nil {
			return unlock, fmt.Errorf("%s is locked: %w", dir, err)
		}
		unlocks = append(unlocks, one)
	}
	return unlock, nil
}

// read returns the decrypted file, or an empty content without one.
func (s Store) read() (content, error) {
	c := content{Version: version, Secrets: map[string][]byte{}}
	if s.Path == "" || s.Identity == "" {
		return c, errUnset
	}
	data, err := readPrivate(s.Path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	keys, err := s.identities()
	if err != nil {
		return c, err
	}
	plain, err := age.Decrypt(bytes.NewReader(data), keys...)
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return c, fmt.Errorf("%s was encrypted for another key than that in %s", s.Path, s.Identity)
	}
	if err != nil { // dropped, because it may quote the file
		return c, fmt.Errorf("%s is not encrypted with age, or broken", s.Path)
	}
	text, err := io.ReadAll(plain)
	var stored content
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	switch {
	case err == nil && stored.Version != version:
		return c, fmt.Errorf("%s has version %d, and this program knows %d", s.Path, stored.Version, version)
	case err != nil || stored.Secrets == nil:
		return c, fmt.Errorf("%s is no file of secrets, or broken", s.Path) // without the cause, which may quote values
	}
	return stored, nil
}

func (s Store) write(c content, to []age.Recipient) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if b.Len() > maxFile {
		return fmt.Errorf("%s would have more than %d MiB", s.Path, maxFile>>20)
	}
	for _, path := range []string{s.Path, s.Identity} { // under the lock nobody writes temporary files
		file.RemoveTemporary(path)
	}
	return file.WritePrivate(s.Path, b.Bytes())
}
