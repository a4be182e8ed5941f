package test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/stateformat"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

var update = flag.Bool("update", false, "write the state of this version into testdata/states")

// keeper is an extension, with a policy that pins its tools, and an operator who has accepted the hidden text of greet.
// What its host keeps is the state that this version writes.
func keeper(t *testing.T, state string) (f *hosttest.Folder, open func() *exthost.Host) {
	t.Helper()
	f = lazyFolder(t, "")
	f.Write("x/tools.json", `[{"name":"greet","description":"Greets.`+"\U000e0041"+`"},{"name":"part"}]`)
	cfg := f.Config()
	cfg.Plugins = []governance.Spec{pinSpec("", governance.ModeEnforce)}
	return f, func() *exthost.Host { return f.OpenWith(cfg, exthost.Options{StateDir: state}) }
}

// TestStatesOfVersions opens a host on the state that each version has left. What an operator has accepted stays
// accepted, what was pinned stays pinned, extensions find their data, and no file is deleted.
func TestStatesOfVersions(t *testing.T) {
	processtest.Leaks(t)
	if *update {
		writeState(t)
	}
	paths, err := filepath.Glob("testdata/states/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	this := filepath.Join("testdata", "states", exthost.Version()+".txtar")
	if !slices.Contains(paths, this) && !strings.Contains(exthost.Version(), "-") {
		t.Errorf("%s is missing: go test ./test -run TestStatesOfVersions -update", this)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			processtest.Leaks(t)
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			state := t.TempDir()
			for _, f := range archive.Files {
				at := filepath.Join(state, filepath.FromSlash(f.Name))
				if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := len(hosttest.LinesOf(t, state, "x", "begun"))
			f, open := keeper(t, state)
			f.Write("x/tools.json", strings.Replace(hosttest.ReadFile(t, filepath.Join(f.Dir, "x/tools.json")),
				`{"name":"part"}`, `{"name":"part","description":"Another."}`, 1))
			h := open()
			if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet", nil); err != nil {
				t.Errorf("accepted before the upgrade: %v", err)
			}
			if _, err := h.Call(hosttest.Deadline(t), "ext_x_part", nil); protocol.KindOf(err) != protocol.Rejected {
				t.Errorf("changed with the upgrade: %v", err)
			}
			if n := len(hosttest.LinesOf(t, state, "x", "begun")); before == 0 || n <= before {
				t.Errorf("the extension has data of %d starts, and of %d before the upgrade", n, before)
			}
			h.Close()
			after := stateFiles(t, state)
			for _, f := range archive.Files {
				if _, ok := after[f.Name]; !ok {
					t.Errorf("%s is deleted", f.Name)
				}
			}
			if after[stateformat.FileName] == "" {
				t.Error("the state says of no format")
			}
		})
	}
}

// TestStateOfANewerVersion checks that no host opens on the state of a newer version, which stays as it is.
func TestStateOfANewerVersion(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	path := filepath.Join(state, stateformat.FileName)
	if err := os.WriteFile(path, []byte(`{"format":2,"exthost":"9.0.0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	before := stateFiles(t, state)
	f := lazyFolder(t, "")
	for _, mode := range []exthost.Mode{{}, {Background: true}, {Inspect: true}} {
		h, err := exthost.Open(hosttest.Deadline(t), f.Config(), exthost.Options{StateDir: state, Mode: mode})
		if err == nil {
			h.Close()
		}
		if protocol.KindOf(err) != protocol.RequirementMissing || !strings.Contains(err.Error(), path) {
			t.Errorf("%+v: %v", mode, err)
		}
	}
	if after := stateFiles(t, state); !maps.Equal(before, after) {
		t.Errorf("the state is now %v", after)
	}
}

// writeState writes what a host of this version keeps.
func writeState(t *testing.T) {
	t.Helper()
	state := t.TempDir()
	_, open := keeper(t, state)
	h := open()
	if err := acceptAll(h, status.Selection{Extension: "x"}, "ada"); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"ext_x_greet", "ext_x_part"} {
		if _, err := h.Call(hosttest.Deadline(t), tool, nil); err != nil {
			t.Fatal(err)
		}
	}
	h.Close()
	files := stateFiles(t, state)
	archive := &txtar.Archive{Comment: []byte("The state directory of TestStatesOfVersions under exthost " +
		exthost.Version() + ".\n")}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(files[name])})
	}
	path := filepath.Join("testdata", "states", exthost.Version()+".txtar")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// stateFiles returns the files below dir by their names in it.
func stateFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
