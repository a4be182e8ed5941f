package consent_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/supply/consent"
	"github.com/exthost/exthost/manifest"
)

func configured(t *testing.T, cfg *config.Config, dir string) []string {
	t.Helper()
	paths, err := consent.ConfiguredPrograms(cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func programs(t *testing.T, m *manifest.Manifest, dir string) []string {
	t.Helper()
	paths, err := consent.Programs(m, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestConfiguredPrograms(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"root.py",
		"guards/check.py",
		"guards/rules.py",
		"guards/data.txt",
		"tools/run",
		"pack/__main__.py",
		"pack/sub/deep.py",
		"hook.sh",
	} {
		path, mode := filepath.Join(dir, name), os.FileMode(0o644)
		if filepath.Ext(name) == "" {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		argv []string
		want string
	}{
		{[]string{"python3", "root.py"}, "root.py"},
		{[]string{"python3", "guards/check.py", "."}, "guards guards/check.py"},
		{[]string{"python3", "--rules=guards/data.txt"}, ""},
		{[]string{"python3", "--rules=guards/rules.py"}, "guards guards/rules.py"},
		{[]string{"python3", "-m", "root"}, "root.py"},
		{[]string{"python3", "-m", "pack"}, "pack pack/__main__.py root.py"},
		{[]string{"python3", "-m", "guards.check"}, "guards guards/check.py root.py"},
		{[]string{"sh", "-c", "test -f x && exec tools/run >guards/data.txt; ./hook.sh"}, "hook.sh tools/run"},
		{[]string{"tools/run"}, "tools/run"},
		{[]string{"sh", "../outside.sh"}, ""},
		{[]string{"true"}, ""},
	} {
		cfg := &config.Config{Plugins: []governance.Spec{{Cmd: test.argv}}}
		var got []string
		for _, path := range configured(t, cfg, dir) {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(rel))
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.argv, diff)
		}
	}
	loads := map[string]string{"NODE_OPTIONS": "--require=./hook.sh"}
	for name, cfg := range map[string]*config.Config{
		"policy":      {Plugins: []governance.Spec{{Cmd: []string{"node"}, Env: loads}}},
		"destination": {Destinations: config.Destinations{"d": {Command: []string{"node"}, Env: loads}}},
	} {
		if got := configured(t, cfg, dir); !slices.Equal(got, []string{filepath.Join(dir, "hook.sh")}) {
			t.Errorf("what the variables of a %s load: %q", name, got)
		}
	}
	k := &consent.Consent{Store: consent.NewStore(filepath.Join(t.TempDir(), "trust"))}
	v, err := k.Configuration(&config.Config{
		Plugins: []governance.Spec{{Cmd: []string{"python3", "guards/check.py"}}},
		Project: config.Project{Dir: dir},
	})
	if err != nil || len(v.Files) != 2 || v.Files["guards/rules.py"].Sum == "" {
		t.Errorf("files %v, %v: want those of code in guards", v, err)
	}
}

// TestProgramsOfVariables: code that a manifest's variables make programs load is part of what is trusted,
// wherever it is.
func TestProgramsOfVariables(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths are those of other systems")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, path := range []string{
		filepath.Join(dir, "hook.js"),
		filepath.Join(elsewhere, "evil.so"),
		filepath.Join(elsewhere, "lib", "libm.so.6"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, value, want string }{
		{"LD_PRELOAD", "libm.so:" + elsewhere + "/evil.so", elsewhere + "/evil.so"},
		{"LD_LIBRARY_PATH", ".:" + elsewhere + "/lib", dir + " " + elsewhere + "/lib"},
		{"NODE_OPTIONS", "--no-warnings --require=./hook.js", dir + "/hook.js"},
		{"NODE_OPTIONS", "--import file://" + elsewhere + "/evil.so", elsewhere + "/evil.so"},
		{"RUBYOPT", "-r./hook.js", dir + "/hook.js"},
		{"GREETING", elsewhere + "/evil.so", ""},
	} {
		m := &manifest.Manifest{
			Transport: manifest.Transport{Command: "true", Env: map[string]string{tt.name: tt.value}},
		}
		if diff := cmp.Diff(tt.want, strings.Join(programs(t, m, dir), " ")); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", tt.name, tt.value, diff)
		}
	}
	m := &manifest.Manifest{
		Transport: manifest.Transport{Command: "true", Env: map[string]string{"LD_LIBRARY_PATH": elsewhere + "/lib"}},
	}
	before, err := consent.Folder(dir, programs(t, m, dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "lib", "libm.so.6"), []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	after, err := consent.Folder(dir, programs(t, m, dir), nil)
	if err != nil || before.Digest() == after.Digest() {
		t.Errorf("a changed library outside of the folder does not change the digest: %v", err)
	}
}
