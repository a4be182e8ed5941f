//go:build unix

package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResolve(t *testing.T) {
	dir, bin, late := t.TempDir(), t.TempDir(), t.TempDir()
	writeFile(t, dir+"/tool", "", 0o755)
	writeFile(t, dir+"/local", "", 0o755)
	writeFile(t, bin+"/tool", "", 0o644)
	writeFile(t, bin+"/plain", "", 0o644)
	writeFile(t, late+"/tool", "", 0o755)
	if err := os.Mkdir(bin+"/folder", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // "local" must not be found here
	path := ".::" + bin + ":relative:" + late
	for command, want := range map[string]string{
		"./tool":       dir + "/tool",
		"sub/../tool":  dir + "/tool",
		"./missing":    dir + "/missing", // Start reports the error
		"/usr/bin/env": "/usr/bin/env",
		"tool":         late + "/tool", // the first one is not executable
		"local":        "not_found",
		"folder":       "not_found",
		"plain":        "not_executable",
		"":             "invalid",
		"a\x00b":       "invalid",
	} {
		got, err := Resolve(command, dir, path)
		var failed *StartError
		if errors.As(err, &failed) {
			got = string(failed.Reason)
		}
		if got != want {
			t.Errorf("Resolve(%q) = %q, %v; want %q", command, got, err, want)
		}
	}
}

func TestNotOnPathSaysSo(t *testing.T) {
	_, err := Resolve("uvx", "/", "/nowhere")
	const want = "cannot start uvx: not found on PATH: install it, or give its full path"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestLaunchScript(t *testing.T) {
	dir, both, old := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"python3", "python", "sh", "node"} {
		writeFile(t, filepath.Join(both, name), "", 0o755)
	}
	writeFile(t, old+"/python", "", 0o755)
	for _, name := range []string{"main.py", "run.sh", "a.js", "b.mjs", "UP.PY"} {
		writeFile(t, filepath.Join(dir, name), "", 0o644)
	}
	for _, tt := range []struct {
		script, path string
		want         []string
		reason       Reason
	}{
		{"main.py", both, []string{both + "/python3", dir + "/main.py"}, ""},
		{"./main.py", old, []string{old + "/python", dir + "/main.py"}, ""},
		{dir + "/UP.PY", both, []string{both + "/python3", dir + "/UP.PY"}, ""},
		{"run.sh", both, []string{both + "/sh", dir + "/run.sh"}, ""},
		{"a.js", both, []string{both + "/node", dir + "/a.js"}, ""},
		{"b.mjs", both, []string{both + "/node", dir + "/b.mjs"}, ""},
		{"server", both, []string{dir + "/server"}, ""},
		{"a.js", old, nil, BadInterpreter},
		{"missing.py", both, nil, NotFound},
		{"", both, nil, Invalid},
	} {
		got, err := LaunchScript(tt.script, dir, tt.path)
		var failed *StartError
		if errors.As(err, &failed) != (tt.reason != "") || failed != nil && failed.Reason != tt.reason {
			t.Errorf("%q: %v, want reason %q", tt.script, err, tt.reason)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.script, diff)
		}
	}
}
