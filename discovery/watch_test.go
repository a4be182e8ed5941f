package discovery

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

const patience = 60 * time.Second

// told waits until the watcher signals a change.
func told(t *testing.T, w *Watcher, of string) {
	t.Helper()
	select {
	case <-w.Changed():
	case <-time.After(patience):
		t.Fatalf("nothing was told of %s", of)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func below(dir string, names ...string) Places {
	p := Places{
		Dirs:   []string{dir},
		Ignore: []string{"node_modules"},
		Wants:  func(path string) bool { return filepath.Base(path) == "wanted" },
	}
	for _, name := range names {
		p.Dirs = append(p.Dirs, filepath.Join(dir, name))
	}
	return p
}

// changes must be signalled, both by events and by polling.
var changes = []struct {
	what   string
	change func(t *testing.T, dir string)
}{
	{"a new file", func(t *testing.T, dir string) { put(t, dir+"/wanted", "1") }},
	{"a write", func(t *testing.T, dir string) { put(t, dir+"/wanted", "two") }},
	{"a save by renaming", func(t *testing.T, dir string) {
		put(t, dir+"/other~", "three!")
		if err := os.Rename(dir+"/other~", dir+"/wanted"); err != nil {
			t.Fatal(err)
		}
	}},
	{"a removed file", func(t *testing.T, dir string) { _ = os.Remove(dir + "/wanted") }},
	{"a new folder", func(t *testing.T, dir string) { _ = os.Mkdir(dir+"/new", 0o755) }},
	{"a folder that was watched and goes", func(t *testing.T, dir string) { _ = os.RemoveAll(dir + "/sub") }},
	{"a folder that comes again", func(t *testing.T, dir string) { _ = os.Mkdir(dir+"/sub", 0o755) }},
}

func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	_ = os.Mkdir(dir+"/sub", 0o755)
	w := NewWatcher()
	defer w.Close()
	if err := w.Watch(below(dir, "sub", "not there")); err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		c.change(t, dir)
		told(t, w, c.what)
		if err := w.Watch(below(dir, "sub", "not there")); err != nil {
			t.Fatal(err)
		}
		for len(w.Changed()) > 0 { // one change may be several events
			<-w.Changed()
		}
	}
	put(t, dir+"/sub/wanted", "in a folder made anew")
	told(t, w, "a file in it")
}

// Irrelevant changes are not signalled. The last change is relevant: events come in order, so all others have been
// handled by then.
func TestWatcherIsQuiet(t *testing.T) {
	dir := t.TempDir()
	w := NewWatcher()
	defer w.Close()
	counted := make(chan string, 100)
	p := below(dir)
	wants := p.Wants
	p.Wants = func(path string) bool { counted <- filepath.Base(path); return wants(path) }
	if err := w.Watch(p); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/unwanted", "1")
	if err := os.Mkdir(dir+"/node_modules", 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/last", "1")
	for name := ""; name != "last"; {
		select {
		case name = <-counted:
		case <-time.After(patience):
			t.Fatal("the last file is not seen")
		}
	}
	select {
	case <-w.Changed():
		t.Error("told of what nobody wants")
	default:
	}
}

// The watcher polls if the system is out of watches.
func TestWatcherPolls(t *testing.T) {
	for _, limit := range []error{syscall.ENOSPC, syscall.EMFILE} {
		t.Run(limit.Error(), func(t *testing.T) {
			dir := t.TempDir()
			_ = os.Mkdir(dir+"/sub", 0o755)
			w := NewWatcher()
			defer w.Close()
			w.interval = 10 * time.Millisecond
			added := 0
			w.add = func(system *fsnotify.Watcher, dir string) error {
				if added++; added > 1 {
					return fmt.Errorf("add: %w", limit)
				}
				return system.Add(dir)
			}
			for range 2 {
				if err := w.Watch(below(dir, "sub")); !errors.Is(err, limit) {
					t.Fatalf("Watch: %v", err)
				}
			}
			for _, c := range changes {
				c.change(t, dir)
				told(t, w, c.what)
			}
			put(t, dir+"/unwanted", "1")
			put(t, dir+"/sub/wanted", "1")
			told(t, w, "a file in a folder made anew")
		})
	}
}

// A change that is undone after a search is signalled, even if no poll saw it: the search may have seen it.
func TestPollingSignalsAChangeBack(t *testing.T) {
	dir := t.TempDir()
	w := NewWatcher()
	defer w.Close()
	w.interval = time.Second
	w.add = func(*fsnotify.Watcher, string) error { return syscall.ENOSPC }
	if err := w.Watch(below(dir)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Watch: %v", err)
	}
	put(t, dir+"/wanted", "1")
	w.Mark()
	for len(w.Changed()) > 0 {
		<-w.Changed()
	}
	if err := os.Remove(dir + "/wanted"); err != nil {
		t.Fatal(err)
	}
	told(t, w, "a removed file")
}

// Result.Dirs has every directory in which a change may change the result.
func TestDirs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"a/plugin.toml",
		"b/c/plugin.toml",
		"b/c/lib/x",
		"node_modules/x/plugin.toml",
		"1/2/3/4/5/x",
	} {
		put(t, filepath.Join(dir, name),
			"[plugin]\nid = \"x\"\nversion = \"0.1.0\"\n[capabilities]\ntools = [\"x\"]\n[transport]\ncommand = "+
				"\"x\"\n")
	}
	r, err := Discover(t.Context(),
		Options{SearchPaths: []string{dir, filepath.Join(dir, "not", "there")}, MaxDepth: 4})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{dir, dir + "/1", dir + "/1/2", dir + "/1/2/3", dir + "/a", dir + "/b", dir + "/b/c", dir}
	if fmt.Sprint(r.Dirs) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", r.Dirs, want)
	}
}
