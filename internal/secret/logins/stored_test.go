package logins_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// TestUnwritable: no token is requested if it could not be stored, since the stored refresh token would become
// invalid.
func TestUnwritable(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	_, dir, g := signedInAt(t, s)
	files, err := filepath.Glob(filepath.Join(dir, "*", "login.age"))
	if err != nil || len(files) != 1 || os.Chmod(files[0], 0o400) != nil {
		t.Fatal(files, err)
	}
	before := s.Asked("/token")
	renew := func() (string, error) {
		store := logins.Open(dir, signin.Client)
		defer store.Close()
		return store.Login(g.Place).Token(limited(t))
	}
	if _, err := renew(); protocol.KindOf(err) != protocol.NotReady ||
		!strings.Contains(err.Error(), "another token could not be stored: ") || s.Asked("/token") != before {
		t.Errorf("%v; %d requests", err, s.Asked("/token")-before)
	}
	if err := os.Chmod(files[0], 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := renew(); err != nil || !accepted(t, s, token) {
		t.Error(err)
	}
}

// TestRefusedFiles: files that others can read or replace are not used, and the error tells the user what to do.
func TestRefusedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	for name, tt := range map[string]struct {
		spoil func(file string) error
		want  string
	}{
		"a file that others read": {func(file string) error { return os.Chmod(file, 0o644) }, "chmod 600 "},
		"a directory that others list": {func(file string) error { return os.Chmod(filepath.Dir(file), 0o755) },
			"chmod 700 "},
		"a key that others read": {func(file string) error {
			return os.Chmod(filepath.Join(filepath.Dir(file), "identity"), 0o640)
		}, "chmod 600 "},
		"a link to the file": {linked, "a symbolic link"},
		"a link to the directory": {func(file string) error { return linked(filepath.Dir(file)) },
			"a symbolic link"},
		"no login": {func(file string) error { return os.WriteFile(file, []byte("canary"), 0o600) },
			"not encrypted with age, or broken"},
		"a directory in its place": {func(file string) error {
			return errors.Join(os.Remove(file), os.Mkdir(file, 0o700))
		}, "a directory, not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			_, dir, g := signedInAt(t, s)
			files, err := filepath.Glob(filepath.Join(dir, "*", "login.age"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if err := tt.spoil(files[0]); err != nil {
				t.Fatal(err)
			}
			before := s.Asked("/token")
			store := logins.Open(dir, signin.Client)
			defer store.Close()
			token, err := store.Login(g.Place).Token(limited(t))
			if err == nil || token != "" || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "canary") || s.Asked("/token") != before {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if err := store.Put(t.Context(), g); err == nil {
				t.Error("the grant is stored there")
			}
		})
	}
}

// linked moves a file and puts a symbolic link in its place.
func linked(path string) error {
	moved := path + "-elsewhere"
	return errors.Join(os.Rename(path, moved), os.Symlink(moved, path))
}
