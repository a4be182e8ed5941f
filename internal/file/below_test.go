package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinksThatLeadOutAreRefused(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	victim := filepath.Join(elsewhere, "victim")
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Mkdir(at("logs"), 0o700),
		os.Mkdir(at("directory"), 0o700), os.WriteFile(at("logs/file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(elsewhere, at("out")), os.Symlink("logs", at("in")),
		os.Symlink(victim, at("link")), os.Symlink("../"+filepath.Base(elsewhere), at("up"))); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	for path, want := range map[string]string{
		at("new"):         "new",
		at("a/b/new"):     "a/b/new",
		at("logs/file"):   "logs/file",
		at("in/file"):     "logs/file",
		at("in/new/deep"): "logs/new/deep",
	} {
		if got, err := Below(dir, path); err != nil || got != filepath.Join(real, filepath.FromSlash(want)) {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		at("out/x"):      "may lead out",
		at("out/deep/x"): "may lead out",
		at("out/victim"): "may lead out",
		at("up/victim"):  "may lead out",
		at("link"):       "is a symbolic link",
		at("directory"):  "not a regular file",
		at("../x"):       "is not below",
		dir:              "is not below",
		victim:           "is not below",
	} {
		if got, err := Below(dir, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v, want %q", path, got, err, want)
		}
		if err := CheckBelow(dir, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if left, _ := os.ReadDir(elsewhere); len(left) != 1 {
		t.Errorf("made elsewhere: %v", left)
	}
	if got, err := Below("", victim); err != nil || got != victim {
		t.Errorf("without a bound: %s, %v", got, err)
	}
}
