//go:build unix

package ownership

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamed changes modes of a file and its directory, and lists safe directories.
func TestNamed(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "my project")
	file, link := filepath.Join(dir, "exthost.yaml"), filepath.Join(parent, "link")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(file, nil, 0o600), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		dir, file os.FileMode
		safe      string
		refused   string // path named by the refusal; "": accepted
		message   string
	}{
		{"closed", 0o755, 0o644, "", "", ""},
		{"open file", 0o755, 0o666, "", file, "everybody may write this file"},
		{"open directory", 0o777, 0o644, "", dir, "everybody may write the directory " + dir},
		{"sticky directory", os.ModeSticky | 0o777, 0o644, "", "", ""},
		{"safe directory", 0o777, 0o666, dir, "", ""},
		{"safe parent", 0o777, 0o666, parent, "", ""},
		{"everything is safe", 0o777, 0o666, "/", "", ""},
		{"another safe directory", 0o755, 0o666, dir + "-2", file, "everybody"},
	} {
		if err := errors.Join(os.Chmod(dir, tt.dir), os.Chmod(file, tt.file)); err != nil {
			t.Fatal(err)
		}
		var r Rule
		if tt.safe != "" {
			r.Safe = []string{tt.safe}
		}
		got := r.Named(file)
		switch {
		case got == nil && tt.refused == "":
		case got == nil || got.Path != tt.refused || !strings.Contains(got.Message, tt.message):
			t.Errorf("%s: %v, want %q", tt.name, got, tt.refused)
		case !strings.Contains(got.Hint, "chmod o-w '"+tt.refused+"'") ||
			!strings.Contains(got.Hint, "SAFE_DIRECTORIES='"+dir+"'"):
			t.Errorf("%s: the hint is %s", tt.name, got.Hint)
		}
	}
	if got := (Rule{Safe: []string{dir}}).Named(filepath.Join(link, "exthost.yaml")); got != nil {
		t.Errorf("through a link: %v", got)
	}
	if got := (Rule{}).Named(filepath.Join(dir, "missing")); got != nil {
		t.Errorf("missing: %v", got)
	}
}

// TestCommand makes files named by command lines writable for everybody.
func TestCommand(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{
		dir + "/run":     0o777,
		dir + "/safe":    0o755,
		dir + "/code.js": 0o666,
		other + "/data":  0o666,
	} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"run":                           "", // on PATH
		"./run":                         dir + "/run",
		dir + "/run":                    dir + "/run",
		"./safe -x safe missing":        "",
		"node --inspect code.js":        dir + "/code.js",
		"node " + dir + "/code.js":      dir + "/code.js",
		"sqlite " + other + "/data":     "", // data of others
		other + "/data":                 other + "/data",
		"sqlite ../elsewhere /dev/null": "",
	} {
		got := (Rule{}).Command(dir, strings.Fields(line))
		if got == nil && want != "" || got != nil && (got.Path != want || !strings.Contains(got.Message, want)) {
			t.Errorf("%s: %v, want %q", line, got, want)
		}
	}
}

// TestForeignOwner gives a file to another user, which requires root.
func TestForeignOwner(t *testing.T) {
	checkout := t.TempDir()
	dir := filepath.Join(checkout, "extensions", "x")
	file := filepath.Join(dir, "plugin.toml")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir, filepath.Dir(dir), checkout} {
		if os.Chown(path, 4294960, 4294960) != nil {
			t.Skip("only root gives files away")
		}
	}
	got := (Rule{}).Named(file)
	if got == nil || !strings.Contains(got.Message, "belongs to uid 4294960") ||
		!strings.Contains(got.Hint, "chown 0 "+file) || !strings.Contains(got.Hint, "DIRECTORIES="+checkout+",") {
		t.Errorf("%v", got)
	}
}
