package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// await returns the next reload.
func await(t *testing.T, reloads <-chan exthost.Reloaded) status.Change {
	t.Helper()
	select {
	case r := <-reloads:
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		return *r.Change
	case <-time.After(hosttest.Patience):
		t.Fatal("nothing is reloaded")
		return status.Change{}
	}
}

func say(t *testing.T, h *exthost.Host, id string) string {
	t.Helper()
	got, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_say", nil)
	if err != nil {
		t.Fatal(err)
	}
	return got.Text()
}

const quick = 10 * time.Millisecond

// Saved, new, removed and renamed files take effect by themselves.
func TestWatchReloads(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite)
	f.Write("x/main.sh", says("one"))
	h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})

	f.Write("x/main.sh", says("two"))
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"x"}})
	if got := say(t, h, "x"); got != "two" {
		t.Errorf("after a write: %q", got)
	}
	f.Write("x/main.sh", says("three"))
	if c := await(t, reloads); !slices.Equal(c.Files, []string{"x/main.sh"}) {
		t.Errorf("files: %q", c.Files)
	}
	if got := say(t, h, "x"); got != "three" {
		t.Errorf("after a save by renaming: %q", got)
	}

	f.Write("deep/er/y/main.sh", says("new"))
	f.Write("deep/er/y/plugin.toml", "[plugin]\nid = \"y\"\nversion = \"0.1.0\"\n"+lite)
	sameChange(t, new(await(t, reloads)), status.Change{Added: []string{"y"}})
	if got := say(t, h, "y"); got != "new" {
		t.Errorf("the new one: %q", got)
	}
	f.Write("deep/er/y/main.sh", says("newer")) // in a directory that did not exist at first
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"y"}})
	if err := os.Rename(filepath.Join(f.Dir, "deep"), filepath.Join(f.T.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	sameChange(t, new(await(t, reloads)), status.Change{Removed: []string{"y"}})
}

// A broken save stops nothing, whatever is broken in it, and is reported with its place.
func TestWatchBrokenSaves(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite).Add("native", hosttest.Child("sdk", ""))
	f.Write("x/main.sh", says("fine"))
	h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})
	manifest, err := os.ReadFile(filepath.Join(f.Dir, "x/plugin.toml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []struct{ file, text, reason string }{
		{"x/plugin.toml", strings.Replace(string(manifest), "protocol", "protocoll", 1), "plugin.toml:6:1"},
		{"x/plugin.toml", "[plugin\n", "plugin.toml:2:1"},
		{"x/main.sh", "#!/bin/sh\nwhile read -r line; do\n\tfi\ndone\n", "3: "},
		{"native/plugin.toml", "[plugin]\nid = \"native\"\nversion = \"0.1.0\"\n" +
			hosttest.Child("err app.py, line 7: no such thing; exit 1", ""), "app.py, line 7"},
	} {
		if broken.file == "x/main.sh" && !stormtest.Full {
			continue // a slow script without handshake may be accepted on a busy machine
		}
		before, _ := os.ReadFile(filepath.Join(f.Dir, broken.file))
		text := strings.ReplaceAll(broken.text, "%EXE%", hosttest.Exe(t))
		f.Write(broken.file, text)
		c := await(t, reloads)
		if len(c.Kept) != 1 {
			t.Errorf("%s: kept %+v", broken.file, c.Kept)
		}
		if problem := h.Admin().WatchStatus().LastProblem; !strings.Contains(problem, broken.reason) {
			t.Errorf("the status says %q", problem)
		}
		if got := say(t, h, "x"); got != "fine" {
			t.Errorf("after a broken %s: %q", broken.file, got)
		}
		if got, err := h.Call(hosttest.Deadline(t), "ext_native_greet", map[string]any{"name": "Ada"}); err != nil {
			t.Errorf("after a broken %s: %s, %v", broken.file, got, err)
		}
		f.Write(broken.file, string(before))
		if c := await(t, reloads); len(c.Kept) > 0 {
			t.Errorf("mended: %+v", c)
		}
	}
}

// An editor that truncates a file and writes it in steps causes one reload, with the final content.
func TestEditorSavesInSteps(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite)
	f.Write("x/main.sh", says("one"))
	h, reloads := f.Watched(config.WatchReload, 200*time.Millisecond, exthost.Options{})
	text := says("two")
	for _, step := range []string{"", text[:20], text[:40], text} {
		f.Overwrite("x/main.sh", step)
	}
	if err := os.Chmod(filepath.Join(f.Dir, "x/main.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"x"}})
	if got := say(t, h, "x"); got != "two" {
		t.Errorf("%q", got)
	}
	f.Overwrite("x/main.sh", text) // the original content
	f.Write("y/plugin.toml", "[plugin]\nid = \"y\"\nversion = \"0.1.0\"\n"+lite)
	f.Write("y/main.sh", text)
	sameChange(t, new(await(t, reloads)), status.Change{Added: []string{"y"}})
}

// A search path that is deleted and created again is searched again.
func TestSearchPathMadeAgain(t *testing.T) {
	processtest.Leaks(t)
	f := &hosttest.Folder{T: t, Dir: filepath.Join(t.TempDir(), "search", "path")}
	f.Add("x", lite)
	f.Write("x/main.sh", says("one"))
	h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})
	for _, dir := range []string{f.Dir, filepath.Dir(f.Dir)} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		var gone []string
		for len(gone) == 0 { // files may be found missing one by one
			gone = await(t, reloads).Removed
		}
		f.Write("x/main.sh", says("two"))
		f.Add("x", lite)
		var come []string
		for len(come) == 0 {
			come = await(t, reloads).Added
		}
		if got := say(t, h, "x"); got != "two" {
			t.Errorf("%q", got)
		}
	}
}

// A search path behind a link is where the link leads, now and later.
func TestWatchLedElsewhere(t *testing.T) {
	processtest.Leaks(t)
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	f := hosttest.NewFolder(t)
	for _, v := range []string{"v1", "v2"} {
		f.Write(v+"/ext/x/plugin.toml", "[plugin]\nid = \"x\"\nversion = \"0.1.0\"\n"+lite)
		f.Write(v+"/ext/x/main.sh", says(v))
	}
	lead := func(to string) {
		t.Helper()
		aside, link := filepath.Join(f.Dir, "aside"), filepath.Join(f.Dir, "current")
		if err := errors.Join(os.Symlink(to, aside), os.Rename(aside, link)); err != nil {
			t.Fatal(err)
		}
	}
	lead("v1")
	linked := &hosttest.Folder{T: t, Dir: filepath.Join(f.Dir, "current", "ext")}
	h, reloads := linked.Watched(config.WatchReload, quick, exthost.Options{})
	lead("v2")
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"x"}})
	if got := say(t, h, "x"); got != "v2" {
		t.Errorf("%q", got)
	}
	f.Write("v2/ext/x/main.sh", says("edited"))
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"x"}})
}

// Files that match [dev] watch count, even in new folders; others do not.
func TestWatchDevGlobs(t *testing.T) {
	f := hosttest.NewFolder(t).Add("x", lite+"[dev]\nwatch = [\"*.txt\", \"lib/**/*.sh\"]\n")
	f.Write("x/main.sh", says("one"))
	h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})
	pid := func() int { say(t, h, "x"); return hosttest.PidOf(t, h, "x") }
	before := pid()
	f.Write("x/notes.md", "not watched")
	f.Write("x/words.txt", "a")
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"x"}})
	if now := pid(); now == before {
		t.Error("the process is the same")
	}
	f.Write("x/lib/a/b/part.sh", "true")
	await(t, reloads)
	f.Write("x/lib/a/b/part.sh", "false")
	await(t, reloads)
	f.Write("x/lib/a/b/part.sh", "false") // again
	f.Write("x/words.txt", "b")
	if c := await(t, reloads); !slices.Equal(c.Files, []string{"x/words.txt"}) {
		t.Errorf("files: %q", c.Files)
	}
}

// The configuration is watched: valid changes take effect, and an unreadable file stops nothing.
func TestWatchConfiguration(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	for _, id := range []string{"a", "b"} {
		f.Add("extensions/"+id, "[plugin]\nid = \""+id+"\"\nversion = \"0.1.0\"\n"+hosttest.Child("sdk", ""))
	}
	file := func(more string) string {
		return fmt.Sprintf("extensions:\n  search_paths: [%q]\n  watch: {enabled: true, mode: reload, debounce_ms: "+
			"10}\n%s", f.Dir+"/extensions", more)
	}
	f.Write("exthost.yaml", file(""))
	load := func() (*config.Config, error) {
		return config.Load(config.LoadOptions{
			Dir:       f.Dir,
			Environ:   []string{},
			UserDir:   "none",
			SystemDir: "none",
		})
	}
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	reloads := make(chan exthost.Reloaded, 100)
	h := f.OpenWith(cfg, exthost.Options{Reread: load, OnReload: func(r exthost.Reloaded) { reloads <- r }})
	hosttest.Eventually(t, "it watches", func() bool { return h.Admin().WatchStatus().Directories > 0 })

	f.Write("exthost.yaml", file("  disbled: [b]\n"))
	if r := <-reloads; r.Err == nil || !strings.Contains(r.Err.Error(), "exthost.yaml:4") {
		t.Errorf("a broken configuration: %+v", r)
	}
	if got, err := h.Call(hosttest.Deadline(t), "ext_b_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Errorf("with a broken configuration: %s, %v", got, err)
	}
	if d := h.Status().Diagnostics; len(d) == 0 || d[0].Level != protocol.LevelError || d[0].Code != "config_invalid" ||
		d[0].Line != 4 || filepath.Base(d[0].Path) != "exthost.yaml" {
		t.Errorf("the status of a host with a broken configuration on disk: %+v", d)
	}
	f.Write("exthost.yaml", file("  disabled: [b]\n"))
	sameChange(t, new(await(t, reloads)), status.Change{Removed: []string{"b"}})
	if d := h.Status().Diagnostics; slices.ContainsFunc(d,
		func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError }) {
		t.Errorf("the configuration was corrected: %+v", d)
	}
	f.Write("config/extensions.yaml", "extensions: {disabled: [a]}") // not read if there is an exthost.yaml
	if err := os.Remove(filepath.Join(f.Dir, "exthost.yaml")); err != nil {
		t.Fatal(err)
	}
	if c := await(t, reloads); !slices.Contains(c.Removed, "a") {
		t.Errorf("%+v", c)
	}
	if s := h.Admin().WatchStatus(); s.Mode != status.WatchOff {
		hosttest.Eventually(t, "the new configuration does not watch",
			func() bool { return h.Admin().WatchStatus().Mode == status.WatchOff })
	}
}

// In mode log, changes are reported once, and applied on request. Modes can be switched while the host runs.
func TestWatchModes(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite)
	f.Write("x/main.sh", says("one"))
	h, reloads := f.Watched(config.WatchLog, quick, exthost.Options{})
	logged := func(what string) (n int) {
		for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{}) {
			if strings.Contains(r.Message+string(r.Attrs), what) {
				n++
			}
		}
		return n
	}
	if got := say(t, h, "x"); got != "one" { // starts it
		t.Errorf("before: %q", got)
	}
	f.Write("x/main.sh", says("two"))
	hosttest.Eventually(t, "it says so", func() bool { return logged("x/main.sh") == 1 })
	if got := say(t, h, "x"); got != "one" {
		t.Errorf("it was applied: %q", got)
	}
	if _, err := h.Admin().Watch(hosttest.Deadline(t), "relaod"); protocol.KindOf(err) != protocol.InvalidArguments ||
		!strings.Contains(err.Error(), `"reload"`) {
		t.Errorf("a mode that there is not: %v", err)
	}
	if s, err := h.Admin().Watch(hosttest.Deadline(t), config.WatchReload); err != nil || s.Mode != config.WatchReload {
		t.Errorf("%+v, %v", s, err)
	}
	await(t, reloads) // the pending changes
	f.Write("x/main.sh", says("three"))
	await(t, reloads)
	if got := say(t, h, "x"); got != "three" {
		t.Errorf("not applied: %q", got)
	}
	if s, err := h.Admin().Watch(hosttest.Deadline(t), status.WatchOff); err != nil || s.Mode != status.WatchOff ||
		s.Directories != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	f.Write("x/main.sh", says("four"))
	if s, err := h.Admin().Watch(hosttest.Deadline(t), "on"); err != nil || s.Mode != config.WatchLog {
		t.Errorf("%+v, %v", s, err)
	}
	hosttest.Eventually(t, "what changed meanwhile is said", func() bool { return logged("x/main.sh") >= 2 })
	if c, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil || !slices.Equal(c.Changed, []string{"x"}) {
		t.Errorf("%+v, %v", c, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Admin().Watch(hosttest.Deadline(t), "on"); protocol.KindOf(err) != protocol.ShuttingDown {
		t.Errorf("on a closed host: %v", err)
	}
}

// A failed extension is not started again because something else was saved.
func TestWatchLeavesTheFailedAlone(t *testing.T) {
	f := hosttest.NewFolder(t).Add("x", lite).Add("crash", hosttest.Child("exit 3", ""))
	f.Write("x/main.sh", says("one"))
	h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})
	f.Write("x/main.sh", says("two"))
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"x"}})
	f.Add("crash", hosttest.Child("sdk", ""))
	sameChange(t, new(await(t, reloads)), status.Change{Changed: []string{"crash"}})
	if s := hosttest.StatusOf(t, h, "crash"); s.State != "ready" {
		t.Errorf("mended: %+v", s)
	}
}

// Thousands of events cause few reloads, after which the host runs what is on disk.
func TestWatchStorm(t *testing.T) {
	processtest.Leaks(t)
	events, span, debounce, most := 200, 200*time.Millisecond, 50*time.Millisecond, 3
	if stormtest.Full {
		events, span, debounce = 10_000, 10*time.Second, 500*time.Millisecond
	}
	f := hosttest.NewFolder(t)
	for i := range 10 {
		f.Add(fmt.Sprint("x", i), lite)
		f.Write(fmt.Sprintf("x%d/main.sh", i), says("before"))
	}
	h, reloads := f.Watched(config.WatchReload, debounce, exthost.Options{})
	began := time.Now()
	tick := time.NewTicker(span / time.Duration(events))
	defer tick.Stop()
	for i := range events {
		name := fmt.Sprintf("x%d/main.sh", i%10)
		switch i % 4 {
		case 0:
			f.Write(name, says(fmt.Sprint(i)))
		case 1:
			_ = os.Remove(filepath.Join(f.Dir, name))
			f.Overwrite(name, says(fmt.Sprint(i)))
		default:
			f.Overwrite(name, says(fmt.Sprint(i)))
		}
		<-tick.C
	}
	took := time.Since(began)
	hosttest.Eventually(t, "what is on disk runs", func() bool {
		for i := range 10 {
			got, err := h.Call(hosttest.Deadline(t), fmt.Sprintf("ext_x%d_say", i), nil)
			if err != nil || got.Text() != fmt.Sprint(events-10+i) {
				return false
			}
		}
		return true
	})
	n := len(reloads)
	t.Logf("%d reloads in %v of %d changes", n, took.Round(time.Millisecond), events)
	if most += int((took - span) / (10 * debounce)); n > most && stormtest.Full { // a slow machine makes longer storms
		t.Errorf("%d reloads, at most %d are right", n, most)
	}
}

// A host that closes during all that leaves nothing behind.
func TestWatchClose(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite)
	f.Write("x/main.sh", says("one"))
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for i := range 5 {
		h, _ := f.Watched(config.WatchReload, quick, exthost.Options{})
		f.Write("x/main.sh", says(fmt.Sprint(i)))
		if i%2 == 0 {
			_, _ = h.Admin().Watch(ctx, status.WatchOff)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Changes that were found in mode log, or came while watching was off, are applied once the host applies changes again.
func TestWatchModeAppliesWhatIsPending(t *testing.T) {
	processtest.Leaks(t)
	for name, before := range map[string]string{
		"found in mode log":    config.WatchLog,
		"not found before off": status.WatchOff,
	} {
		t.Run(name, func(t *testing.T) {
			f := hosttest.NewFolder(t).Add("x", lite).Add("gone", lite)
			h, reloads := f.Watched(config.WatchReload, quick, exthost.Options{})
			set := func(mode string) {
				if _, err := h.Admin().Watch(hosttest.Deadline(t), mode); err != nil {
					t.Fatal(err)
				}
			}
			if before == config.WatchLog {
				set(before)
			}
			away := filepath.Join(t.TempDir(), "gone")
			// in one step: the host may look at any time
			if err := os.Rename(filepath.Join(f.Dir, "gone"), away); err != nil {
				t.Fatal(err)
			}
			if before == config.WatchLog {
				hosttest.Eventually(t, "the change is found",
					func() bool { return h.Admin().WatchStatus().Changes == 1 })
			}
			set(before)
			set(config.WatchReload)
			sameChange(t, new(await(t, reloads)), status.Change{Removed: []string{"gone"}})
		})
	}
}
