package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/manifest"
)

func init() {
	verbs["restricted"] = func(file string) {
		if err := os.WriteFile(file, []byte(restricted()), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// restricted returns the no_new_privs of this process.
func restricted() string {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "NoNewPrivs:\t")
	return rest[:1]
}

// No process can gain privileges, except those of an extension or destination whose entry permits it.
func TestProcessesGainNoPrivileges(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	say := func(name, rest string) string { return "restricted " + filepath.Join(dir, name) + "; " + rest }
	run := `[transport]
kind = "exec"
command = "sed"
[[tools]]
name = "run"
command = ["sed", "-n", "s/^NoNewPrivs:.//p", "/proc/self/status"]
`
	f := hosttest.NewFolder(t).Add("x", hosttest.Child(say("extension", "sdk"), "")).Add("lax",
		hosttest.Child(say("lax", "sdk"), "")).
		Add("isolated", hosttest.Child(say("isolated", "sdk"), "[runtime]\nisolate = \"pid\"\n")).
		Add("limited", hosttest.Child(say("limited", "sdk"), "[runtime.limits]\nopen_files = 100\n")).
		Add("run", run).Add("laxrun", run)
	cfg := f.Config()
	cfg.Extensions.Entries = map[string]config.Entry{"lax": {NewPrivileges: true}, "laxrun": {NewPrivileges: true}}
	cfg.Plugins = []governance.Spec{hosttest.GuardSpec(t, "guard", say("policy", "guard"))}
	cfg.Hooks = []manifest.HookSpec{
		shell("PreToolUse", "sed -n 's/^NoNewPrivs:.//p' /proc/self/status > "+filepath.Join(dir, "hook")),
	}
	cfg.Destinations = make(config.Destinations)
	for name, lax := range map[string]bool{"destination": false, "laxdestination": true} {
		d := destinations(t, say(name, "mcp"), nil).Destinations["d"]
		d.NewPrivileges = lax
		cfg.Destinations[name] = d
	}
	h := f.OpenWith(cfg, exthost.Options{Mode: exthost.Mode{StartLazy: true}})
	got := make(map[string]string)
	for _, id := range []string{"run", "laxrun"} {
		result, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_run", nil)
		if err != nil {
			t.Fatal(err)
		}
		got[id] = strings.TrimSpace(result.Text())
	}
	want := map[string]string{
		"run":            "1",
		"extension":      "1",
		"limited":        "1",
		"policy":         "1",
		"hook":           "1",
		"destination":    "1",
		"laxrun":         "0",
		"lax":            "0",
		"laxdestination": "0",
	}
	hosttest.Eventually(t, "the isolated extension has started, or cannot",
		func() bool { return hosttest.StatusOf(t, h, "isolated").State != "spawning" })
	if hosttest.StatusOf(t, h, "isolated").State == "ready" { // some systems permit no pid namespace
		want["isolated"] = "1"
	}
	for name := range want {
		if got[name] == "" {
			hosttest.Eventually(t, name+" says what it has", func() bool {
				text, _ := os.ReadFile(filepath.Join(dir, name))
				got[name] = strings.TrimSpace(string(text))
				return got[name] != ""
			})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for id, lax := range map[string]bool{"x": false, "lax": true} {
		if hosttest.StatusOf(t, h, id).NewPrivileges != lax {
			t.Errorf("status of %s: %v", id, !lax)
		}
	}
}
