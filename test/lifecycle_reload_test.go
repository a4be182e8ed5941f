package test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// lite is the manifest of a shell script with a fixed answer.
const lite = `[transport]
script = "main.sh"
protocol = "lite"
[[tools]]
name = "say"
description = "Says something."
`

// says returns that script.
func says(text string) string {
	return fmt.Sprintf(`#!/bin/sh
while read -r line; do
	id=${line##*\"id\":}
	echo "{\"id\":${id%%%%[!0-9]*},\"result\":\"%s\"}"
done
`, text)
}

func reload(t *testing.T, h *exthost.Host) *status.Change {
	t.Helper()
	plan, err := h.Admin().Plan(hosttest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	done, err := h.Admin().Reload(hosttest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(done.Failed) == 0 && len(done.Kept) == len(plan.Kept) {
		if diff := cmp.Diff(plan, done); diff != "" {
			t.Errorf("the plan was another (-plan +done):\n%s", diff)
		}
	}
	return done
}

// sameChange compares ids only.
func sameChange(t *testing.T, got *status.Change, want status.Change) {
	t.Helper()
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(status.KeptBuild{}, "Reason", "Evidence"),
		cmpopts.IgnoreFields(status.Change{}, "Failed", "Files")); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
}

func TestReload(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	for _, id := range []string{"broken", "changed", "gated", "gone", "same", "unstartable"} {
		f.Add(id, hosttest.Child("sdk", ""))
	}
	f.Add("script", lite)
	f.Write("script/main.sh", says("one"))
	h := f.Open(exthost.Options{})
	sameChange(t, reload(t, h), status.Change{})
	before := make(map[string]int)
	for _, id := range []string{"broken", "changed", "gated", "same", "unstartable"} {
		before[id] = hosttest.PidOf(t, h, id)
	}
	if got, err := h.Call(hosttest.Deadline(t), "ext_script_say", nil); err != nil || got.Text() != "one" {
		t.Fatalf("say: %s, %v", got, err)
	}

	f.Add("added", hosttest.Child("sdk", ""))
	f.Write("broken/plugin.toml", "[plugin]\nid = \"broken\"\nversion = \"0.1.0\"\n[transport]\ncomand = \"x\"\n")
	f.Add("changed", hosttest.Child("sdk", `args = ["2"]`))
	f.Add("gated", hosttest.Child("sdk", "[requires]\nbins = [\"no-such-program\"]\n"))
	f.Add("unstartable", hosttest.Child("err no luck; exit 3", ""))
	f.Write("script/main.sh", says("two"))
	if err := os.RemoveAll(filepath.Join(f.Dir, "gone")); err != nil {
		t.Fatal(err)
	}
	done := reload(t, h)
	sameChange(t, done, status.Change{
		Added:   []string{"added"},
		Changed: []string{"changed", "script"},
		Removed: []string{"gone"},
		Kept:    []status.KeptBuild{{ID: "broken"}, {ID: "gated"}, {ID: "unstartable"}},
	})
	for i, want := range []string{"plugin.toml:5:1", "no-such-program", "exit status 3"} {
		if i < len(done.Kept) && !strings.Contains(done.Kept[i].Reason, want) {
			t.Errorf("%s is kept because %q, which lacks %q", done.Kept[i].ID, done.Kept[i].Reason, want)
		}
	}
	for id, pid := range before {
		if got := hosttest.PidOf(t, h, id); (got == pid) == (id == "changed") {
			t.Errorf("%s had pid %d and has %d", id, pid, got)
		}
		if got, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_greet", map[string]any{"name": "Ada"}); err != nil ||
			got.Text() != "Hello, Ada!" {
			t.Errorf("%s after the reload: %s, %v", id, got, err)
		}
	}
	if got, err := h.Call(hosttest.Deadline(t), "ext_script_say", nil); err != nil || got.Text() != "two" {
		t.Errorf("say: %s, %v", got, err)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_gone_greet", nil); protocol.KindOf(err) != protocol.ToolNotFound {
		t.Errorf("a tool that is gone: %v", err)
	}
}

// A spurious write does nothing; a failed extension is tried again.
func TestReloadOfTheSame(t *testing.T) {
	f := hosttest.NewFolder(t).Add("x", lite).Add("crash", hosttest.Child("exit 3", ""))
	f.Write("x/main.sh", says("one"))
	h := f.Open(exthost.Options{})
	f.Write("x/main.sh", says("one"))
	f.Add("x", lite)
	done := reload(t, h)
	sameChange(t, done, status.Change{Retried: []string{"crash"}})
	if len(done.Failed) != 1 || done.Failed[0].Extension != "crash" {
		t.Errorf("failed: %v", done.Failed)
	}
}

// An extension that can no longer be examined was not removed: it goes on running, and a diagnostic gives the reason.
func TestReloadHidden(t *testing.T) {
	processtest.Leaks(t)
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	top := t.TempDir()
	f := &hosttest.Folder{T: t, Dir: filepath.Join(top, "ext")}
	for _, dir := range []string{"x", "pack/deep"} {
		f.Write(dir+"/plugin.toml", fmt.Sprintf("[plugin]\nid = %q\nversion = \"0.1.0\"\n", filepath.Base(dir))+lite)
		f.Write(dir+"/main.sh", says("fine"))
	}
	h := f.Open(exthost.Options{})
	moved := filepath.Join(top, "moved")
	link := func(at string) error { return os.Symlink(moved, at) }
	for _, tt := range []struct {
		hidden string
		hide   func(at string) error
		kept   []status.KeptBuild
		reason string
	}{
		{"x/plugin.toml", link, []status.KeptBuild{{ID: "x"}}, "a symbolic link"},
		{"x/plugin.toml", func(at string) error { return os.Mkdir(at, 0o700) }, []status.KeptBuild{{ID: "x"}},
			"a directory"},
		{"pack/deep", link, []status.KeptBuild{{ID: "deep"}}, "links are not followed"},
		{".", func(at string) error { return os.WriteFile(at, nil, 0o600) },
			[]status.KeptBuild{{ID: "deep"}, {ID: "x"}}, "not a directory"},
	} {
		at := filepath.Join(f.Dir, tt.hidden)
		if err := errors.Join(os.Rename(at, moved), tt.hide(at)); err != nil {
			t.Fatal(err)
		}
		c := reload(t, h)
		sameChange(t, c, status.Change{Kept: tt.kept})
		for _, k := range c.Kept {
			if !strings.Contains(k.Reason, tt.reason) {
				t.Errorf("%s is kept because %q, not because of %q", k.ID, k.Reason, tt.reason)
			}
		}
		if got := say(t, h, "x") + say(t, h, "deep"); got != "finefine" {
			t.Errorf("%s hidden: %q", tt.hidden, got)
		}
		if err := errors.Join(os.Remove(at), os.Rename(moved, at)); err != nil {
			t.Fatal(err)
		}
		sameChange(t, reload(t, h), status.Change{})
	}
}

// A broken list of servers beside a manifest stops none of them, whether or not the manifest starts something itself.
func TestReloadBrokenSidecar(t *testing.T) {
	processtest.Leaks(t)
	for name, manifest := range map[string]string{"alone": "", "beside": lite} {
		t.Run(name, func(t *testing.T) {
			f := hosttest.NewFolder(t).Add("x", manifest)
			f.Write("x/main.sh", says("fine"))
			sidecar := fmt.Sprintf(`{"mcpServers": {"s": {"command": %q, "env": {%q: "mcp"}}}}`, hosttest.Exe(t),
				processtest.ScriptVar)
			f.Write("x/.mcp.json", sidecar)
			h := f.Open(exthost.Options{})
			before := hosttest.PidOf(t, h, "x.s")
			if before == 0 {
				t.Fatal("the server does not run")
			}
			f.Write("x/.mcp.json", sidecar[:20])
			c := reload(t, h)
			if len(c.Kept) != 1 || c.Kept[0].ID != "x.s" || !strings.Contains(c.Kept[0].Reason, ".mcp.json:1:") {
				t.Errorf("%+v", c)
			}
			if pid := hosttest.PidOf(t, h, "x.s"); pid != before {
				t.Errorf("it had pid %d and has %d", before, pid)
			}
			f.Write("x/.mcp.json", sidecar)
			if c := reload(t, h); len(c.Kept) > 0 || hosttest.PidOf(t, h, "x.s") != before {
				t.Errorf("mended: %+v", c)
			}
			f.Write("x/.mcp.json", `{"mcpServers": {}}`)
			f.Add("x", lite)
			if c := reload(t, h); len(c.Removed) != 1 {
				t.Errorf("taken out: %+v", c)
			}
		})
	}
}

// An invalid configuration changes nothing; a valid one takes effect, and settings that cannot change are reported.
func TestReloadConfiguration(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("a", hosttest.Child("sdk", "")).Add("b", hosttest.Child("sdk", ""))
	var next *config.Config
	broken := errors.New("exthost.yaml:3:1: no")
	h := f.Open(exthost.Options{Reread: func() (*config.Config, error) {
		if next == nil {
			return nil, broken
		}
		return next, nil
	}})
	pid := hosttest.PidOf(t, h, "a")
	if _, err := h.Admin().Reload(hosttest.Deadline(t)); !errors.Is(err, broken) {
		t.Errorf("a broken configuration: %v", err)
	}
	cfg := f.Config()
	cfg.Extensions.Disabled = []string{"b"}
	cfg.Server.Listen = "127.0.0.1:1"
	cfg.Cluster.Operators = []string{"web"}
	next = cfg
	sameChange(t, reload(t, h), status.Change{Removed: []string{"b"}, Restart: []string{"server", "cluster"}})
	if got := hosttest.PidOf(t, h, "a"); got != pid {
		t.Errorf("a had pid %d and has %d", pid, got)
	}
	if s := hosttest.StatusOf(t, h, "b"); s.State != status.StateDisabled {
		t.Errorf("b is %s", s.State)
	}
	again := *cfg
	again.Extensions.Disabled = nil
	again.Extensions.Entries = map[string]config.Entry{"a": {Env: map[string]string{"NEW": "1"}}}
	next = &again
	sameChange(t, reload(t, h), status.Change{
		Added:   []string{"b"},
		Changed: []string{"a"},
		Restart: []string{"server", "cluster"}, // until the host is opened again
	})
	if got, err := h.Call(hosttest.Deadline(t), "ext_a_environ", nil); err != nil ||
		!strings.Contains(got.Text(), "NEW=1") {
		t.Errorf("a has not got its new variable: %v", err)
	}
}

// Callers notice nothing while everything is replaced again and again.
func TestReloadUnderLoad(t *testing.T) {
	processtest.Leaks(t)
	reloads := stormtest.Sized(10, 50)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{})
	var calls atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(hosttest.Deadline(t))
	defer stop()
	for i := range 16 {
		wg.Go(func() {
			name := fmt.Sprint("caller ", i)
			for ctx.Err() == nil {
				got, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]any{"name": name})
				if err != nil || got.Text() != "Hello, "+name+"!" {
					t.Errorf("%s: %s, %v", name, got, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range reloads {
		f.Add("x", hosttest.Child("sdk", fmt.Sprintf("args = [\"%d\"]\n", i)))
		sameChange(t, reload(t, h), status.Change{Changed: []string{"x"}})
	}
	stop()
	wg.Wait()
	t.Logf("%d calls during %d reloads", calls.Load(), reloads)
	if s := hosttest.StatusOf(t, h, "x"); s.Calls < calls.Load() || s.Errors > 0 {
		t.Errorf("the status counts %d calls and %d errors", s.Calls, s.Errors)
	}
}

// Clients are notified once of all changes of their tools by a reload, and not at all if there are none.
func TestReloadListChangedOnce(t *testing.T) {
	processtest.Leaks(t)
	f, client := hosttest.NewFolder(t), hosttest.NewRecorder()
	h := f.Open(exthost.Options{}) // without tools, as their arrival would be announced too
	f.Add("same", hosttest.Child("sdk", ""))
	if err := h.Attach(hosttest.Deadline(t), &protocol.Session{ID: "s", Client: client}); err != nil {
		t.Fatal(err)
	}
	const reloads = 5
	for i := range reloads {
		f.Write("lite/plugin.toml",
			fmt.Sprintf("[plugin]\nid = \"lite\"\nversion = \"0.1.0\"\n"+lite+"[[tools]]\nname = \"t%d\"\n", i))
		f.Write("lite/main.sh", says("x"))
		f.Add("native", fmt.Sprintf("[capabilities]\ntools = [%q]\n",
			[]string{"greet", "echo"}[i%2])+strings.TrimPrefix(hosttest.Child("sdk", ""), hosttest.ToolsOfChild))
		f.Add(fmt.Sprint("new", i), hosttest.Child("sdk", ""))
		if err := os.RemoveAll(filepath.Join(f.Dir, fmt.Sprint("new", i-1))); err != nil {
			t.Fatal(err)
		}
		if c := reload(t, h); len(c.Added) == 0 || i > 0 && (len(c.Changed) != 2 || len(c.Removed) != 1) {
			t.Errorf("%+v", c)
		}
		wait(t, client.On, protocol.MethodToolsListChanged)
		f.Add("same", hosttest.Child("sdk", fmt.Sprintf("args = [\"%d\"]", i))) // offers the same tools
		sameChange(t, reload(t, h), status.Change{Changed: []string{"same"}})
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(client, protocol.MethodToolsListChanged); n != reloads {
		t.Errorf("told %d times of %d reloads: %q", n, reloads, client.Heard)
	}
}

// A call in flight stays with its old version until it has ended.
func TestReloadDrains(t *testing.T) {
	processtest.Leaks(t)
	state := t.TempDir()
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{StateDir: state})
	ctx, cancel := context.WithCancel(hosttest.Deadline(t))
	done := make(chan error, 1)
	go func() {
		_, err := h.Call(ctx, "ext_x_wait", nil)
		done <- err
	}()
	hosttest.Eventually(t, "the call is under way",
		func() bool { return hosttest.StatusOf(t, h, "x").Instances[0].InFlight > 0 })
	f.Add("x", hosttest.Child("sdk", `args = ["2"]`))
	reload(t, h)
	if got, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Errorf("the new build: %s, %v", got, err)
	}
	select {
	case err := <-done:
		t.Errorf("the old build's call has ended: %v", err)
	default:
	}
	cancel()
	if err := <-done; protocol.KindOf(err) != protocol.Canceled {
		t.Errorf("the call: %v", err)
	}
	hosttest.Eventually(t, "the old build was told", func() bool {
		_, err := os.Stat(filepath.Join(state, "x", "cancelled"))
		return err == nil
	})
}

// An extension that holds a lock ends before its successor starts, and callers wait in the meantime.
func TestReloadStopFirst(t *testing.T) {
	processtest.Leaks(t)
	manifest := func(build string) string {
		return hosttest.Child("locked",
			fmt.Sprintf("args = [%q]\n[runtime]\nreload = \"stop_first\"\nshutdown_grace = \"200ms\"\n", build))
	}
	f := hosttest.NewFolder(t).Add("x", manifest("1"))
	h := f.Open(exthost.Options{})
	for i := range 3 {
		f.Add("x", manifest(fmt.Sprint(i+2)))
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					if _, err := h.Call(hosttest.Deadline(t), "ext_x_greet",
						json.RawMessage(`{"name":"Ada"}`)); err != nil {
						t.Errorf("during the reload: %v", err)
						return
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		sameChange(t, reload(t, h), status.Change{Changed: []string{"x"}})
		close(stop)
		wg.Wait()
	}
}

// A reload that was canceled, or whose host closes, changes nothing.
func TestReloadGivenUp(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{})
	f.Add("x", hosttest.Child("err here I hang; hang", ""))
	ctx, cancel := context.WithCancel(hosttest.Deadline(t))
	done := make(chan error, 1)
	go func() {
		_, err := h.Admin().Reload(ctx)
		done <- err
	}()
	hosttest.Eventually(t, "the new build starts", func() bool {
		for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{Extension: "x"}) {
			if strings.Contains(r.Message, "here I hang") {
				return true
			}
		}
		return false
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if got, err := h.Call(hosttest.Deadline(t), "ext_x_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Errorf("the old build: %s, %v", got, err)
	}
	go func() {
		_, err := h.Admin().Reload(hosttest.Deadline(t))
		done <- err
	}()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("a reload of a closing host is a success")
	}
}

// Enabling one extension changes no other: a failed one is not tried again, and saved changes wait for a reload.
func TestEnableChangesNoOther(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite).Add("failed", hosttest.Child("exit 3", "")).Add("y", lite).Add("gone",
		lite)
	f.Write("y/main.sh", says("one"))
	cfg := f.Config()
	cfg.Extensions.Disabled = []string{"x"}
	next := *cfg
	h := f.OpenWith(cfg, exthost.Options{
		Reread: func() (*config.Config, error) { return new(next), nil },
		Disable: func(id string, disabled bool) error {
			if next.Extensions.Disabled = nil; disabled {
				next.Extensions.Disabled = []string{id}
			}
			return nil
		},
	})
	since := hosttest.StatusOf(t, h, "failed").Instances[0].Since
	f.Write("y/main.sh", says("two"))
	f.Add("added", lite)
	if err := os.RemoveAll(filepath.Join(f.Dir, "gone")); err != nil {
		t.Fatal(err)
	}
	next.Extensions.MaxDepth++ // an unapplied change of the configuration

	if err := h.Admin().Enable(hosttest.Deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	if s := hosttest.StatusOf(t, h, "x"); s.State == status.StateDisabled {
		t.Errorf("x: %+v", s)
	}
	if s := hosttest.StatusOf(t, h, "failed"); !s.Instances[0].Since.Equal(since) {
		t.Errorf("the failed extension was tried again: %+v", s)
	}
	if s := hosttest.StatusOf(t, h, "gone"); s.State != "idle" {
		t.Errorf("gone: %+v", s)
	}
	change, err := h.Admin().Plan(hosttest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	sameChange(t, change, status.Change{
		Added:   []string{"added"},
		Changed: []string{"y"},
		Removed: []string{"gone"},
		Retried: []string{"failed"},
	})
}

// A reload begins anew while what was built for it is out of date, and only a bounded number of times.
func TestReloadOfWhatIsSavedMeanwhile(t *testing.T) {
	processtest.Leaks(t)
	for outdated, want := range map[int]int{0: 1, 2: 3, 100: 4} {
		reads := 0
		f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
		cfg := f.Config()
		h := f.OpenWith(cfg, exthost.Options{
			Reread: func() (*config.Config, error) { reads++; return cfg, nil },
			Mode:   exthost.Mode{Built: func() bool { return reads > outdated }},
		})
		if c, err := h.Admin().Reload(hosttest.Deadline(t)); err != nil || !c.Empty() || reads != want {
			t.Errorf("outdated %d times: %d reads, %+v, %v", outdated, reads, c, err)
		}
	}
}

// broken is the manifest of an extension that ends at its start.
func broken(status int) string {
	return fmt.Sprintf("[transport]\ncommand = \"sh\"\nargs = [\"-c\", \"exit %d\"]\n"+
		"[runtime]\nactivation = \"eager\"\n[runtime.restart]\nmax_attempts = 0\n", status)
}

// diagnosed returns the diagnostics about starts.
func diagnosed(h *exthost.Host) string {
	var texts []string
	for _, d := range h.Status().Diagnostics {
		if strings.Contains(d.Message, "did not start") {
			texts = append(texts, d.Message+" "+d.Hint)
		}
	}
	return strings.Join(texts, "\n")
}

// A build that fails replaces one that has failed, and what is removed leaves nothing behind.
func TestReloadOfWhatHasFailed(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", broken(3))
	h := f.Open(exthost.Options{})
	if got := diagnosed(h); !strings.Contains(got, "exit status 3") {
		t.Errorf("diagnostics: %s", got)
	}
	f.Add("x", broken(4))
	if change := reload(t, h); len(change.Kept) > 0 || len(change.Failed) != 1 {
		t.Errorf("failed %+v, kept %+v", change.Failed, change.Kept)
	}
	if got := diagnosed(h); !strings.Contains(got, "exit status 4") || strings.Contains(got, "exit status 3") ||
		strings.Contains(got, "previous build") {
		t.Errorf("diagnostics: %s", got)
	}
	if got := h.Status().Extensions[0].Reason; !strings.Contains(got, "exit status 4") {
		t.Errorf("the reason is %s", got)
	}
	if err := os.RemoveAll(filepath.Join(f.Dir, "x")); err != nil {
		t.Fatal(err)
	}
	reload(t, h)
	if got := diagnosed(h); got != "" {
		t.Errorf("after it was removed: %s", got)
	}
}

// A build that did not start is forgotten once the disk has the running one again.
func TestReloadOfWhatIsMended(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", lite)
	f.Write("x/main.sh", says("one"))
	h := f.Open(exthost.Options{})
	f.Add("x", broken(3))
	if change := reload(t, h); len(change.Kept) != 1 {
		t.Fatalf("kept %+v", change.Kept)
	}
	if got := diagnosed(h); !strings.Contains(got, "previous build") {
		t.Errorf("while the new build is broken: %s", got)
	}
	f.Add("x", lite)
	reload(t, h)
	if got := diagnosed(h); got != "" {
		t.Errorf("after it was mended: %s", got)
	}
}
