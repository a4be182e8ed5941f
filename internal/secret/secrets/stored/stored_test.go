package stored_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/file/ownership"
	"github.com/exthost/exthost/internal/secret/secrets"
	"github.com/exthost/exthost/internal/secret/secrets/stored"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// TestCommand checks what becomes of a program's output. No error quotes it.
func TestCommand(t *testing.T) {
	processtest.Leaks(t)
	for name, want := range map[string]string{
		"prints": "value of github", "ends the line": "value of github", "two lines": "one\ntwo", "reads": "read",
	} {
		if got, err := command(name, time.Minute).Lookup(t.Context(), "github"); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"nothing":        "printed nothing",
		"a line alone":   "the value is empty",
		"zero":           "NUL",
		"fails":          "no such item",
		"floods":         "printed more than 65536 bytes",
		"leaves a child": "",
	} {
		_, err := command(name, time.Minute).Lookup(t.Context(), "github")
		if e, ok := errors.AsType[*secrets.Error](err); want != "" &&
			(!ok || !strings.Contains(e.Message, "the secret github: ") || !strings.Contains(e.Message, want) ||
				e.Next != "have secrets.command print github") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%s: %q", name, err)
		}
	}
	missing := stored.Command{Argv: []string{"no-such-program-of-secrets"}, Timeout: time.Minute}
	if _, err := missing.Lookup(t.Context(), "x"); err == nil {
		t.Error("a program that is not there gave a value")
	}
}

// TestCommandThatHangs: a hanging program is killed at its timeout and when the caller leaves.
func TestCommandThatHangs(t *testing.T) {
	processtest.Leaks(t)
	if _, err := command("hangs", 50*time.Millisecond).Lookup(t.Context(), "x"); err == nil ||
		!strings.Contains(err.Error(), "gave no answer within 50ms") || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := command("hangs", time.Minute).Lookup(ctx, "x"); err == nil {
		t.Error("a value after the end of ctx")
	}
}

func TestEnv(t *testing.T) {
	e := stored.Env{Environ: []string{"A=1", "B=", "A=2"}}
	if got, err := e.Lookup(t.Context(), "A"); err != nil || got != "2" {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"B", "C"} {
		if err := e.Check(name); err == nil || !strings.Contains(err.Error(), "set the variable "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// write creates a file with a mode.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, dir+"/github", "v1\n", 0o600)
	write(t, dir+"/open", "v2", 0o644)
	write(t, dir+"/.hidden", "v3", 0o600)
	write(t, elsewhere+"/other", "v4", 0o600)
	if err := errors.Join(os.Mkdir(dir+"/folder", 0o700), os.Symlink(elsewhere+"/other", dir+"/out"),
		os.Symlink("github", dir+"/in")); err != nil {
		t.Fatal(err)
	}
	f := stored.File{Path: dir}
	for name, want := range map[string]string{"github": "v1", "in": "v1"} { // like mounted secrets
		if got, err := f.Lookup(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"open":    "everybody may read this file",
		"out":     "escapes",
		"folder":  "not a regular file",
		"missing": "is not in " + dir + "; write it to " + filepath.Join(dir, "missing"),
	} {
		if err := f.Check(name); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "the secret "+name) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if got, err := (stored.File{Path: dir, Owners: ownership.Rule{Safe: []string{dir}}}).Lookup(t.Context(),
		"open"); err != nil || got != "v2" {
		t.Errorf("in a safe directory: %q, %v", got, err)
	}
	if names, err := f.Names(); err != nil || !slices.Equal(names, []string{"github", "in", "open", "out"}) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestFileOfLines(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	path := filepath.Join(t.TempDir(), "secrets")
	f := stored.File{Path: path}
	if err := f.Check("a"); err == nil || !strings.Contains(err.Error(), "; write a line a=… into "+path) {
		t.Errorf("%v", err)
	}
	write(t, path, "# mine\na=1\nexport b='two words'\n", 0o600)
	for name, want := range map[string]string{"a": "1", "b": "two words"} {
		if got, err := f.Lookup(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := f.Check("c"); err == nil || !strings.Contains(err.Error(), "write a line c=… into "+path) {
		t.Errorf("%v", err)
	}
	write(t, path, "a=1\n", 0o640)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Check("a"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
	write(t, path, "canary\n", 0o600)
	if err := f.Check("a"); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
	if err := (stored.File{}).Check("a"); err == nil || !strings.Contains(err.Error(), "secrets.path") {
		t.Errorf("%v", err)
	}
}
