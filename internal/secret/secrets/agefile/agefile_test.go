package agefile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"

	"github.com/exthost/exthost/internal/secret/secrets/agefile"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// setter is the variable that makes the test binary store secrets repeatedly in a directory.
const setter = "AGEFILE_TEST_SETTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(setter); dir != "" {
		os.Exit(store(storeIn(dir), os.Args[1]))
	}
	os.Exit(m.Run())
}

// perWriter is the number of secrets that each program stores.
const perWriter = 8

func store(s agefile.Store, name string) int {
	for n := range perWriter {
		if err := s.Set(fmt.Sprintf("%s_%d", name, n), "value of "+name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(n)
	}
	return 0
}

func storeIn(dir string) agefile.Store {
	return agefile.Store{
		Path:     filepath.Join(dir, "secrets", "secrets.age"),
		Identity: filepath.Join(dir, "secrets", "identity"),
	}
}

func program(dir, name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], name)
	cmd.Env = append(os.Environ(), setter+"="+dir)
	return cmd
}

func TestStore(t *testing.T) {
	s := storeIn(t.TempDir())
	if err := s.Check("a"); err == nil ||
		!strings.HasSuffix(err.Error(), "the secret a is not stored; exthost secret set a") {
		t.Errorf("%v", err)
	}
	for name, value := range map[string]string{"a": "1", "b": "\xff\x01 \n", "c": strings.Repeat("x", 64<<10)} {
		if err := s.Set(name, value); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Lookup(t.Context(), name); err != nil || got != value {
			t.Errorf("%s: %.20q, %v", name, got, err)
		}
	}
	if err := s.Set("a", "canary"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Remove("b")); err != nil {
		t.Error(err)
	}
	if err := s.Remove("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"a", "c"}) {
		t.Errorf("%q, %v", names, err)
	}
	for _, path := range []string{s.Path, s.Identity, filepath.Dir(s.Path)} {
		info, err := os.Stat(path)
		want := fs.FileMode(0o600)
		if err == nil && info.IsDir() {
			want = 0o700
		}
		if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
		if data, _ := os.ReadFile(path); bytes.Contains(data, []byte("canary")) {
			t.Errorf("%s has the value", path)
		}
	}
	if err := (agefile.Store{}).Set("a", "b"); err == nil || !strings.Contains(err.Error(), "secrets.path") {
		t.Errorf("%v", err)
	}
}

// TestStoredAtOnce: concurrent programs lose no secret.
func TestStoredAtOnce(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			if out, err := program(dir, fmt.Sprint("w", w)).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if names, err := storeIn(dir).Names(); err != nil || len(names) != 4*perWriter {
		t.Errorf("%d secrets, %v: %q", len(names), err, names)
	}
}

// TestOneKeyForAll: stores that share a key file create one key, and it decrypts all.
func TestOneKeyForAll(t *testing.T) {
	for range 8 {
		dir := t.TempDir()
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				s := agefile.Store{
					Path:     filepath.Join(dir, fmt.Sprint(n), "secrets.age"),
					Identity: filepath.Join(dir, "key", "identity"),
				}
				if err := s.Set("a", "value"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for n := range 4 {
			s := agefile.Store{
				Path:     filepath.Join(dir, fmt.Sprint(n), "secrets.age"),
				Identity: filepath.Join(dir, "key", "identity"),
			}
			if err := s.Check("a"); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRemoveNothing: removing a missing secret creates no file.
func TestRemoveNothing(t *testing.T) {
	dir := t.TempDir()
	if err := storeIn(dir).Remove("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestKilled: a program killed while storing leaves a valid file with everything it has reported.
func TestKilled(t *testing.T) {
	processtest.Leaks(t)
	for n := range 8 {
		dir := t.TempDir()
		cmd := program(dir, "w")
		out, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			t.Fatal(err)
		}
		line := make([]byte, 2)
		for range n { // kill it during the next write
			if _, err := out.Read(line); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		s := storeIn(dir)
		names, err := s.Names()
		if err != nil || len(names) < n {
			t.Errorf("after %d: %q, %v", n, names, err)
		}
		if err := s.Set("next", "value"); err != nil {
			t.Errorf("after %d: %v", n, err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "secrets", ".*")); len(left) > 0 {
			t.Errorf("after %d is left: %q", n, left)
		}
	}
}

// TestRefused: files that others can read or replace are refused, with the next step.
func TestRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	for name, tt := range map[string]struct {
		spoil func(s agefile.Store) error
		want  string
	}{
		"a directory of others": {func(s agefile.Store) error { return os.Chmod(filepath.Dir(s.Path), 0o755) },
			"chmod 700 "},
		"a file that others read": {func(s agefile.Store) error { return os.Chmod(s.Path, 0o640) }, "chmod 600 "},
		"a key that others read":  {func(s agefile.Store) error { return os.Chmod(s.Identity, 0o604) }, "chmod 600 "},
		"a link to the file":      {func(s agefile.Store) error { return linked(s.Path) }, "a symbolic link"},
		"a link to the key":       {func(s agefile.Store) error { return linked(s.Identity) }, "a symbolic link"},
		"a link to the directory": {func(s agefile.Store) error { return linked(filepath.Dir(s.Path)) },
			"a symbolic link"},
		"no key": {func(s agefile.Store) error { return os.Remove(s.Identity) },
			"restore it from a backup"},
		"another key": {func(s agefile.Store) error { return otherKey(s.Identity) }, "for another key"},
		"no key at all": {func(s agefile.Store) error {
			return os.WriteFile(s.Identity, []byte("canary"), 0o600)
		}, "no file of age keys"},
		"a broken file": {func(s agefile.Store) error {
			return os.WriteFile(s.Path, []byte("canary"), 0o600)
		}, "is not encrypted with age"},
		"a file of nothing": {func(s agefile.Store) error { return encrypt(s, `{"version":1,"secrets":null}`) },
			"no file of secrets"},
		"a later version": {func(s agefile.Store) error { return encrypt(s, `{"version":2,"canary":{}}`) },
			"version 2"},
		"a directory": {func(s agefile.Store) error {
			return errors.Join(os.Remove(s.Path), os.Mkdir(s.Path, 0o700))
		}, "a directory, not a regular file"},
		"another owner": {func(s agefile.Store) error { return os.Chown(s.Path, 4294960, 4294960) },
			"belongs to"},
		"another owner's key": {func(s agefile.Store) error { return os.Chown(s.Identity, 4294960, 4294960) },
			"belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			s := storeIn(t.TempDir())
			if err := s.Set("a", "canary"); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(s); errors.Is(err, fs.ErrPermission) {
				t.Skip("only root gives files away")
			} else if err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"Check":  s.Check("a"),
				"Set":    s.Set("b", "canary"),
				"Remove": s.Remove("a"),
			} {
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s: %v, want %s", what, err, tt.want)
				}
			}
		})
	}
}

// linked moves a file and puts a symbolic link in its place.
func linked(path string) error {
	moved := path + "-elsewhere"
	return errors.Join(os.Rename(path, moved), os.Symlink(moved, path))
}

// encrypt replaces the store's file by an encrypted text.
func encrypt(s agefile.Store, text string) error {
	key, err := os.Open(s.Identity)
	if err != nil {
		return err
	}
	defer key.Close()
	keys, err := age.ParseIdentities(key)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, keys[0].(*age.X25519Identity).Recipient())
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return errors.Join(err, w.Close(), os.WriteFile(s.Path, b.Bytes(), 0o600))
}

// otherKey replaces a key by another store's.
func otherKey(path string) error {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	other := storeIn(dir)
	if err := other.Set("x", "y"); err != nil {
		return err
	}
	text, err := os.ReadFile(other.Identity)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
