package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/proc/sandbox"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// strictTable is the table of an extension that states none.
func strictTable() *ask.Table { return ask.Override{}.Over(nil, ask.Strict, "") }

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir+"/home")
	for _, d := range []string{"ext/data", "home/notes", "host/ext", "host/other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		"ext/out":      "home/notes",
		"host/ext/out": "home/notes",
		"ext/in":       "ext/data",
		"home/link":    "home/notes",
	} {
		if err := os.Symlink(filepath.Join(dir, to), filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	at := sandbox.Place{Dir: dir + "/ext", State: dir + "/host/ext", Private: []string{dir + "/host"}}
	p, err := sandbox.Resolve(&ask.Table{
		Read:  []string{"./data", "in", "~/notes", "~/link", "/srv/none"},
		Write: []string{"{state}", "{state}/new/deep"},
	}, at)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/ext", "/host/ext", "/ext/data", "/ext/data", "/home/notes", "/home/notes", "/srv/none",
		"/host/ext", "/host/ext/new/deep"}
	var got []string
	for _, path := range append(p.Read, p.Write...) {
		got = append(got, strings.TrimPrefix(path, dir))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, says := range map[string]string{
		"out":               "by a symbolic link",
		"{state}/out":       "by a symbolic link",
		dir + "/host/other": "files of the host",
		dir + "/host":       "files of the host",
		dir:                 "files of the host",
		"/":                 "files of the host",
		"/proc/1":           "runtime.isolate",
		".":                 "holds the manifest",
	} {
		if _, err := sandbox.Resolve(&ask.Table{Write: []string{name}}, at); err == nil ||
			!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "sandbox.write[0]") {
			t.Errorf("%s: %v", name, err)
		}
	}
	at.Dir = dir
	if _, err := sandbox.Resolve(&ask.Table{}, at); err == nil ||
		!strings.Contains(err.Error(), "the extension's folder") {
		t.Errorf("a folder around the host's files: %v", err)
	}
}
