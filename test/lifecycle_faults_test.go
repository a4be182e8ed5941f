package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// What was scanned runs; a manifest that is replaced later takes effect with the next scan.
func TestManifestReplacedAfterTheScan(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{})
	f.Add("x", hosttest.Child("exit 9", ""))
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_die", nil); protocol.KindOf(err) != protocol.ChildExited {
		t.Fatal(err)
	}
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

// The program disappears after the requirements were checked.
func TestProgramVanishesAfterTheGate(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t)
	f.Write("bin/tool", "#!/bin/sh\necho ran\n")
	f.Add("x", `[requires]
bins = ["tool"]
[transport]
kind = "exec"
command = "tool"
[[tools]]
name = "run"
`)
	bin := filepath.Join(f.Dir, "bin")
	h := f.Open(exthost.Options{Environ: []string{"PATH=" + bin + ":" + os.Getenv("PATH")}})
	if result, err := h.Call(hosttest.Deadline(t), "ext_x_run", nil); err != nil ||
		!strings.Contains(result.Text(), "ran") {
		t.Fatalf("run = %s, %v", result, err)
	}
	if err := os.Remove(filepath.Join(bin, "tool")); err != nil {
		t.Fatal(err)
	}
	_, err := h.Call(hosttest.Deadline(t), "ext_x_run", nil)
	if protocol.KindOf(err) != protocol.SpawnFailed || !strings.Contains(err.Error(), "tool") {
		t.Errorf("without its program: %v; want spawn_failed that names it", err)
	}
}

// Many extensions start at once, and a hanging one among them delays none.
func TestManyStartAtOnce(t *testing.T) {
	processtest.Leaks(t)
	many := stormtest.Sized(20, 200)
	f := hosttest.NewFolder(t)
	for i := range many {
		f.Add(fmt.Sprintf("x%03d", i), `[capabilities]
tools = ["t"]
[transport]
command = "sh"
args = ["-c", '''read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}'; while read -r line; do :; done''']
`)
	}
	f.Add("hung", hosttest.Child("hang", "[runtime]\nstart_timeout = \"30s\"\n"))
	h := f.Open(exthost.Options{Mode: exthost.Mode{Background: true}})
	hosttest.Eventually(t, "all but one are ready", func() bool { return len(hosttest.Names(h)) == many })
	if h.Ready(hosttest.Canceled()) == nil {
		t.Error("the hung one has started")
	}
}

// The directory for the state of extensions is unusable.
func TestStateDirectoryUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{StateDir: file})
	s := hosttest.StatusOf(t, h, "x")
	if s.State != status.StateSkipped || !strings.Contains(s.Reason, "state directory") ||
		!strings.Contains(s.Reason, file) {
		t.Errorf("x: %+v", s)
	}
}

// An exec process that is killed or writes too much fails only its own call.
func TestExecFaultsEndWithTheirCall(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", `[transport]
kind = "exec"
command = "sh"
[runtime]
max_line_bytes = "64KiB"
[[tools]]
name = "killed"
command = ["sh", "-c", "kill -9 $$"]
[[tools]]
name = "verbose"
command = ["sh", "-c", "yes"]
[[tools]]
name = "fine"
command = ["echo", "fine"]
`).Open(exthost.Options{})
	for tool, kind := range map[string]protocol.Kind{"killed": protocol.ChildExited, "verbose": protocol.LineTooLong} {
		if _, err := h.Call(hosttest.Deadline(t), "ext_x_"+tool, nil); protocol.KindOf(err) != kind {
			t.Errorf("%s: %v, want %s", tool, err, kind)
		}
		if got, err := h.Call(hosttest.Deadline(t), "ext_x_fine", nil); err != nil ||
			strings.TrimSpace(got.Text()) != "fine" {
			t.Errorf("after %s: %s, %v", tool, got, err)
		}
	}
}

// A call that times out appears in log and status, as nothing else shows that an extension hangs. Many timeouts do not
// cause many log lines.
func TestTimeoutsAreSaid(t *testing.T) {
	processtest.Leaks(t)
	var log bytes.Buffer
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "[runtime]\ncall_timeout = \"50ms\"\n")).
		Open(exthost.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, cancel := context.WithCancel(hosttest.Deadline(t))
	cancel()
	_, _ = h.Call(ctx, "ext_x_wait", nil) // canceled by the caller
	if f := hosttest.StatusOf(t, h, "x").LastFailure; f != nil {
		t.Errorf("the last failure: %+v", f)
	}
	for range 5 {
		if _, err := h.Call(hosttest.Deadline(t), "ext_x_wait", nil); protocol.KindOf(err) != protocol.CallTimeout {
			t.Error(err)
		}
	}
	if f := hosttest.StatusOf(t, h, "x").LastFailure; f == nil || f.Kind != protocol.CallTimeout ||
		f.Tool != "ext_x_wait" || !strings.Contains(f.Reason, "50ms") {
		t.Errorf("the last failure: %+v", f)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "a call timed out"); n != 3 ||
		!strings.Contains(log.String(), "exthost restart x if it hangs") {
		t.Errorf("%d of 5 timeouts are in the log:\n%s", n, &log)
	}
}

// A secret that an extension was given and prints appears in no log, error or status.
func TestSecretsAreMasked(t *testing.T) {
	processtest.Leaks(t)
	const canary = "SUPERSECRETCANARY"
	var log bytes.Buffer
	f := hosttest.NewFolder(t)
	f.Add("lines", `[requires]
env = ["MY_TOKEN"]
[transport]
script = "x.sh"
protocol = "lite"
[[tools]]
name = "leak"
`)
	f.Write("lines/x.sh", `#!/bin/sh
read -r line
echo "E! token is $MY_TOKEN" >&2
echo "noise $MY_TOKEN"
exit 3
`)
	f.Add("once", `[requires]
env = ["MY_TOKEN"]
[transport]
kind = "exec"
[[tools]]
name = "leak"
command = ["sh", "-c", "echo dying with $MY_TOKEN >&2; exit 3"]
`)
	h := f.Open(exthost.Options{Environ: []string{"PATH=" + os.Getenv("PATH"), "MY_TOKEN=" + canary},
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, tool := range []string{"ext_lines_leak", "ext_once_leak"} {
		_, err := h.Call(hosttest.Deadline(t), tool, nil)
		e, ok := errors.AsType[*protocol.Error](err)
		if !ok || e.Evidence == nil || len(e.Evidence.Stderr)+len(e.Evidence.Line) == 0 {
			t.Fatalf("%s: %+v, want evidence", tool, err)
		}
		wire, _ := json.Marshal(e.Wire())
		if all := fmt.Sprintf("%v %+v %s", err, e.Evidence, wire); strings.Contains(all, canary) ||
			!strings.Contains(all, "***") {
			t.Errorf("%s: %s", tool, all)
		}
	}
	status, err := json.Marshal(h.Status())
	if err != nil || bytes.Contains(status, []byte(canary)) {
		t.Errorf("status: %s, %v", status, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), canary) || !strings.Contains(log.String(), "***") {
		t.Errorf("log: %s", log.String())
	}
}

// A manifest that becomes invalid affects nothing else: the extension keeps running with its last valid version, and so
// do the others.
func TestReloadWithOneBadManifest(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("bad", hosttest.Child("sdk", "")).Add("good", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{})
	f.Write("bad/plugin.toml", "[plugin\n")
	if done := reload(t, h); len(done.Kept) != 1 || done.Kept[0].ID != "bad" ||
		!strings.Contains(done.Kept[0].Reason, "plugin.toml:2") {
		t.Errorf("kept: %+v", done.Kept)
	}
	for _, id := range []string{"bad", "good"} {
		if _, err := h.Call(hosttest.Deadline(t), "ext_"+id+"_greet", map[string]any{"name": "Ada"}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A removed extension has drain_timeout to end its calls; after that they fail with an unknown outcome. Nothing of it
// is left.
func TestExtensionRemovedDuringACall(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x",
		hosttest.Child("sdk", "[runtime]\ndrain_timeout = \"50ms\"\nshutdown_grace = \"50ms\"\n"))
	h := f.Open(exthost.Options{})
	process, err := os.FindProcess(hosttest.PidOf(t, h, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer process.Release()
	failed := make(chan error, 1)
	go func() {
		_, err := h.Call(context.Background(), "ext_x_wait", nil)
		failed <- err
	}()
	hosttest.Eventually(t, "the call is under way",
		func() bool { return hosttest.StatusOf(t, h, "x").Instances[0].InFlight > 0 })
	if err := os.RemoveAll(filepath.Join(f.Dir, "x")); err != nil {
		t.Fatal(err)
	}
	reload(t, h)
	e, ok := errors.AsType[*protocol.Error](<-failed)
	if !ok || e.Kind != protocol.ShuttingDown || e.Outcome != "unknown" {
		t.Errorf("the call: %+v", e)
	}
	hosttest.Eventually(t, "its process is gone", func() bool { return process.Signal(syscall.Signal(0)) != nil })
}
