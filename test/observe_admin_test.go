package test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// adminStatus returns the status of an extension as operators see it.
func adminStatus(t *testing.T, h *exthost.Host, id string) status.Extension {
	t.Helper()
	for _, x := range h.Admin().Status().Extensions {
		if x.ID == id {
			return x
		}
	}
	t.Fatalf("no extension %q", id)
	return status.Extension{}
}

func TestStatusCountsCalls(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("sdk", "")).Open(exthost.Options{})
	if x := adminStatus(t, h, "x"); x.Latency != nil || x.Calls != 0 || x.LastCrash != nil {
		t.Errorf("before any call: %+v", x)
	}
	for range 10 {
		if err := hosttest.Greet(t, h, "Ada"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_refuse", nil); err == nil {
		t.Fatal("refuse does not fail")
	}
	s := h.Admin().Status()
	if s.Host == nil || s.Host.PID != os.Getpid() || s.Host.StartedAt.IsZero() {
		t.Errorf("host: %+v", s.Host)
	}
	x := adminStatus(t, h, "x")
	if x.Calls != 11 || x.Errors != 1 || x.Refused != 0 {
		t.Errorf("%d calls, %d errors, %d refused", x.Calls, x.Errors, x.Refused)
	}
	if x.Latency == nil || x.Latency.P50 <= 0 || x.Latency.P95 < x.Latency.P50 {
		t.Errorf("latency %+v", x.Latency)
	}
	if len(x.Instances) != 1 {
		t.Fatalf("instances: %+v", x.Instances)
	}
	i := x.Instances[0]
	if i.PID <= 0 || i.PID == os.Getpid() || i.StartedAt.IsZero() || i.Breaker != "closed" {
		t.Errorf("instance: %+v", i)
	}
	if runtime.GOOS == "linux" && (i.RSS < 1<<20 || s.Host.RSS < 1<<20) {
		t.Errorf("memory: host %d, extension %d", s.Host.RSS, i.RSS)
	}
}

// A restart replaces the process in any state, and the counts stay.
func TestRestartReplacesTheProcess(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x",
		hosttest.Child("sdk", "[runtime.restart]\nmax_attempts = 0\n")).Open(exthost.Options{})
	before := adminStatus(t, h, "x").Instances[0].PID
	if err := h.Admin().Restart(hosttest.Deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	healthy := adminStatus(t, h, "x")
	if pid := healthy.Instances[0].PID; pid == before || pid == 0 || healthy.LastCrash != nil {
		t.Errorf("a healthy extension after its restart: pid %d before, %+v", before, healthy)
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_x_die", nil); err == nil {
		t.Fatal("die lives")
	}
	hosttest.Eventually(t, "it has failed", func() bool { return hosttest.StatusOf(t, h, "x").State == "failed" })
	if err := hosttest.Greet(t, h, "Ada"); protocol.KindOf(err) != protocol.Failed {
		t.Errorf("a call to a failed extension: %v", err)
	}
	if x := adminStatus(t, h, "x"); x.Refused != 1 || x.Reason == "" || x.Instances[0].PID != 0 {
		t.Errorf("failed: %+v", x)
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "x"); err != nil {
		t.Fatal(err)
	}
	if err := hosttest.Greet(t, h, "Ada"); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	x := adminStatus(t, h, "x")
	c := x.LastCrash
	if c == nil || c.Kind != protocol.ChildExited || c.PID != healthy.Instances[0].PID || c.Evidence == nil ||
		c.Evidence.ExitCode == nil || *c.Evidence.ExitCode != 3 || c.Time.Before(c.StartedAt) {
		t.Errorf("the post-mortem: %+v", c)
	}
	if x.State != "ready" || x.Reason != "" {
		t.Errorf("after the restart it is %s: %q", x.State, x.Reason)
	}
}

// A restart starts a repaired extension that never ran, with its tools. If it is still broken, the new error is
// reported once.
func TestRestartStartsARepairedExtension(t *testing.T) {
	processtest.Leaks(t)
	for _, instances := range []string{`"shared"`, `2`, `"per_session"`} {
		t.Run(instances, func(t *testing.T) {
			f := hosttest.NewFolder(t)
			f.Add("x", `[capabilities]
tools = ["t"]
[transport]
script = "main.sh"
[runtime]
instances = `+instances+"\n")
			f.Write("x/main.sh", "#!/bin/sh\necho first fault >&2\nexit 3\n")
			h := f.Open(exthost.Options{})
			faults := func() (list []string) {
				for _, d := range h.Status().Diagnostics {
					if d.Extension == "x" {
						list = append(list, d.Message)
					}
				}
				return list
			}
			if s := hosttest.StatusOf(t, h, "x"); s.State == "ready" || s.LastCrash == nil ||
				!slices.Contains(s.LastCrash.Evidence.Stderr, "first fault") {
				t.Fatalf("%+v", s)
			}
			f.Write("x/main.sh", "#!/bin/sh\nexit 4\n")
			if err := h.Admin().Restart(hosttest.Deadline(t), "x"); protocol.KindOf(err) != protocol.ChildExited {
				t.Errorf("Restart of the broken: %v", err)
			}
			if got := faults(); len(got) != 1 || !strings.Contains(got[0], "status 4") {
				t.Errorf("diagnostics: %q", got)
			}
			f.Write("x/main.sh", `#!/bin/sh
while read -r line; do
	id=${line##*\"id\":}
	echo '{"jsonrpc":"2.0","id":'${id%%[!0-9]*}',"result":{"tools":[{"name":"t","input_schema":{"type":"object"}}]}}'
done
`)
			if err := h.Admin().Restart(hosttest.Deadline(t), "x"); err != nil {
				t.Fatal(err)
			}
			hosttest.Eventually(t, "its tool is there",
				func() bool { return slices.Contains(hosttest.Names(h), "ext_x_t") })
			if got := faults(); len(got) > 0 {
				t.Errorf("diagnostics of what is mended: %q", got)
			}
			if instances == `"per_session"` {
				hosttest.Eventually(t, "nobody's instance is gone",
					func() bool { return len(hosttest.StatusOf(t, h, "x").Instances) == 0 })
			}
		})
	}
}

// A call in flight completes despite the restart.
func TestRestartDrainsCalls(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("x",
		"[transport]\nkind = \"exec\"\ncommand = \"sh\"\n[[tools]]\nname = \"t\"\ncommand = [\"cat\", \"fifo\"]\n")
	fifo := filepath.Join(f.Dir, "x", "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Skip("mkfifo is missing")
	}
	h := f.Open(exthost.Options{})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if got, err := h.Call(hosttest.Deadline(t), "ext_x_t", nil); err != nil ||
			!strings.Contains(got.Text(), "the end") {
			t.Errorf("the call: %s, %v", got, err)
		}
	})
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // blocks until the tool reads
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	restarted := make(chan error, 1)
	wg.Go(func() { restarted <- h.Admin().Restart(hosttest.Deadline(t), "x") })
	hosttest.Eventually(t, "it drains", func() bool { return hosttest.StatusOf(t, h, "x").State == "draining" })
	fmt.Fprintln(w, "the end")
	w.Close()
	if err := <-restarted; err != nil {
		t.Error(err)
	}
}

func TestRestartOfMissingExtensionsFails(t *testing.T) {
	f := hosttest.NewFolder(t).Add("lazy",
		"[transport]\nkind = \"exec\"\ncommand = \"true\"\n[[tools]]\nname = \"t\"\n").
		Add("gated", hosttest.Child("sdk", "[requires]\nbins = [\"no-such-program\"]\n")).Add("asleep",
		hosttest.Child("sdk", ""))
	cfg := f.Config()
	cfg.Extensions.Disabled = []string{"asleep"}
	h := f.OpenWith(cfg, exthost.Options{})
	for id, want := range map[string]struct {
		kind protocol.Kind
		text string
	}{
		"lazy":   {"", ""},
		"gated":  {protocol.RequirementMissing, "no-such-program"},
		"asleep": {protocol.Rejected, "extensions.disabled"},
		"lasy":   {protocol.ToolNotFound, `did you mean "lazy"?`},
		"nobody": {protocol.ToolNotFound, `"nobody"`},
	} {
		err := h.Admin().Restart(hosttest.Deadline(t), id)
		if protocol.KindOf(err) != want.kind || err != nil && !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if s := hosttest.StatusOf(t, h, "lazy"); s.State != "idle" {
		t.Errorf("a restart started what nobody has called: %+v", s)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Admin().Restart(hosttest.Deadline(t), "lazy"); err != nil &&
		protocol.KindOf(err) != protocol.ShuttingDown {
		t.Errorf("on a closed host: %v", err)
	}
}

// Operators can read and follow the host's log and the stderr of extensions, whatever the program's own logger
// shows.
func TestLogsAreReadAndFollowed(t *testing.T) {
	processtest.Leaks(t)
	h := hosttest.NewFolder(t).Add("x", hosttest.Child("err W! careful; serve", "")).Add("y",
		"[transport]\nkind = \"exec\"\ncommand = \"sh\"\n[[tools]]\nname = \"t\"\ncommand = [\"sh\", \"-c\", \"echo "+
			"'E! bad' >&2; echo 'D! detail' >&2\"]\n").
		Open(exthost.Options{Logger: slog.New(slog.DiscardHandler)})
	found := func(f status.LogFilter, want string) bool {
		for r := range h.Admin().Logs(hosttest.Deadline(t), f) {
			if fmt.Sprintf("%s %s: %s", r.Level, r.Extension, r.Message) == want {
				return true
			}
		}
		return false
	}
	hosttest.Eventually(t, "the stderr of x is kept",
		func() bool { return found(status.LogFilter{}, "WARN x: careful") })
	if found(status.LogFilter{Extension: "y"}, "WARN x: careful") {
		t.Error("the filter lets another extension through")
	}
	ctx, stop := context.WithCancel(hosttest.Deadline(t))
	defer stop()
	heard := make(chan string, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for r := range h.Admin().Logs(ctx, status.LogFilter{Extension: "y", Level: slog.LevelDebug, Follow: true}) {
			heard <- r.Message
		}
	})
	for seen := map[string]bool{}; !seen["bad"] || !seen["detail"]; {
		if _, err := h.Call(hosttest.Deadline(t), "ext_y_t", nil); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-heard:
			seen[m] = true
		case <-time.After(50 * time.Millisecond): // the follower may have begun after the call
		case <-ctx.Done():
			t.Fatalf("heard only %v", seen)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait() // closing the host ends followers
	if ctx.Err() != nil {
		t.Error("the follower went on after the host")
	}
	if !found(status.LogFilter{Last: 100, Level: slog.LevelError}, "ERROR y: bad") {
		t.Error("the log is gone with the host")
	}
}

// Failure texts name the next command.
func TestFailuresNameTheNextCommand(t *testing.T) {
	h := hosttest.NewFolder(t).Add("x",
		hosttest.Child("sdk", "[runtime.restart]\nmax_attempts = 0\n")).Open(exthost.Options{})
	_, _ = h.Call(hosttest.Deadline(t), "ext_x_die", nil)
	hosttest.Eventually(t, "the log says what to do", func() bool {
		for r := range h.Admin().Logs(hosttest.Deadline(t), status.LogFilter{Extension: "x", Level: slog.LevelError}) {
			if strings.Contains(string(r.Attrs), "exthost restart x") {
				return true
			}
		}
		return false
	})
}
