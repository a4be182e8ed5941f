package consent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/protocol"
)

// execManifest is the kit's manifest with one process per call.
var execManifest = strings.Replace(manifestText, "[transport]\n", "[transport]\nkind = \"exec\"\n", 1) +
	"[[tools]]\nname = \"x\"\n"

// TestStill changes files between the comparison before a start and the one after it, in some cases undoing the
// change.
func TestStill(t *testing.T) {
	put := func(k *kit, name string, do func(path string) error) {
		k.Helper()
		if err := do(filepath.Join(k.dir, name)); err != nil {
			k.Fatal(err)
		}
	}
	swap := func(name string) func(*kit) { // replaces a file and puts it back
		return func(k *kit) {
			put(k, name, func(path string) error { return os.Rename(path, filepath.Join(k.dir, "../kept")) })
			k.write(name, "evil()\n")
			put(k, name, os.Remove)
			put(k, name, func(path string) error { return os.Rename(filepath.Join(k.dir, "../kept"), path) })
		}
	}
	for name, tt := range map[string]struct {
		change func(*kit)
		want   string
	}{
		"nothing":         {func(*kit) {}, ""},
		"a script":        {swap("main.py"), "main.py"},
		"a module":        {swap("lib/deep.py"), "lib/deep.py"},
		"the manifest":    {swap("plugin.toml"), "plugin.toml"},
		"named settings":  {swap("rules.data"), "rules.data"},
		"named data":      {swap("../shared/more.data"), ""},
		"data":            {swap("notes.txt"), ""},
		"a linked script": {swap("linked.py"), "linked.py"},
		"removed":         {func(k *kit) { k.remove("lib/deep.py") }, "lib/deep.py"},
		// the next start compares again
		"what a tool makes": {func(k *kit) { k.write("uv.lock", ""); k.write(".venv/bin/x", "#!/bin/sh\n") }, ""},
		"a folder": {func(k *kit) {
			put(k, "lib", func(path string) error { return os.Rename(path, filepath.Join(k.dir, "../kept")) })
			k.write("lib/deep.py", "evil()\n")
			put(k, "lib", os.RemoveAll)
			put(k, "lib", func(path string) error { return os.Rename(filepath.Join(k.dir, "../kept"), path) })
		}, "lib/"},
		"overwritten, with the time set back": {func(k *kit) {
			put(k, "main.py", func(path string) error {
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				k.write("main.py", "evil()\n")
				k.write("main.py", "import lib\n")
				return os.Chtimes(path, time.Time{}, info.ModTime())
			})
		}, "main.py"},
		"data of all kinds": {func(k *kit) {
			k.write("store.db-journal", "\x00")
			put(k, "store.db-journal", os.Remove)
			k.write("data/new/notes.json", "{}")
			put(k, "data", func(path string) error { return os.Chmod(path, 0o700) })
			put(k, "data/latest", func(path string) error { return os.Symlink("new/notes.json", path) })
			put(k, "data/latest", os.Remove)
			k.write("__pycache__/lib.cpython-312.pyc", "\xcb\x0d\x0d\x0a\x00\x00\x00\x0012345678")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			put(k, "linked.py", func(path string) error {
				k.write("../shared/target.py", "1\n")
				return os.Symlink("../shared/target.py", path)
			})
			k.write("plugin.toml", execManifest)
			k.accept()
			still, err := k.Starts(k.candidate())
			if err != nil {
				t.Fatal(err)
			}
			tt.change(k)
			switch err := still(); {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" &&
				(protocol.KindOf(err) != protocol.Untrusted || !strings.HasSuffix(protocol.Reason(err), ": "+tt.want)):
				t.Errorf("says %v, want %s", err, tt.want)
			}
		})
	}
}

// TestInstancesMayBuildAtTheSameTime starts a process while another instance keeps rewriting the code.
func TestInstancesMayBuildAtTheSameTime(t *testing.T) {
	k := newKit(t)
	k.accept()
	path := filepath.Join(k.dir, "main.py")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if err := os.Chmod(path, 0o644); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	still, err := k.Starts(k.candidate())
	if err == nil {
		err = still()
	}
	close(stop)
	<-stopped
	if err != nil {
		t.Error(err)
	}
}

// TestProgramMayBuildItsCodeWhenItStarts lets an MCP server rewrite its code, change the mode of the code and replace
// the folder, all with the same content.
func TestProgramMayBuildItsCodeWhenItStarts(t *testing.T) {
	for text, trusted := range map[string]bool{
		"x = 1\n":  true,
		"evil()\n": false,
	} {
		k := newKit(t)
		k.accept()
		still, err := k.Starts(k.candidate())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(k.dir, "lib")); err != nil {
			t.Fatal(err)
		}
		k.write("lib/deep.py", text)
		if err := os.Chmod(filepath.Join(k.dir, "main.py"), 0o755); err != nil {
			t.Fatal(err)
		}
		switch err := still(); {
		case trusted && err != nil:
			t.Error(err)
		case !trusted && (protocol.KindOf(err) != protocol.Untrusted ||
			!strings.Contains(protocol.Reason(err), "lib/deep.py")):
			t.Errorf("with %q: %v", text, err)
		}
	}
}
