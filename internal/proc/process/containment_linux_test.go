package process

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func contained(c *Containment) func(*Spec) { return func(s *Spec) { s.Containment = c } }

// contain returns a containment without a guardian.
func contain(t testing.TB) *Containment {
	c := Contain("")
	t.Cleanup(c.Close)
	return c
}

// A daemon that left group and session is killed at the end of its own child, not of another one.
func TestDaemonDiesWithItsChild(t *testing.T) {
	processtest.Leaks(t)
	c := contain(t)
	for script, end := range map[string]func(*child){
		"daemon pid, hang; read; exit 3": func(p *child) { p.Stdin.Close() },
		"daemon pid, kill 19; hang":      func(p *child) { p.Kill() },
		"daemon ignore, pid, hang; read": func(p *child) { _ = p.Stop(t.Context(), patience) },
	} {
		other := start(t, "daemon pid, hang; hang", contained(c))
		spared := other.pid()
		p := start(t, script, contained(c))
		daemon := p.pid()
		end(p)
		p.ended()
		if alive(daemon) {
			t.Errorf("%q: the daemon outlives its child", script)
		}
		if !alive(spared) || !alive(other.PID()) {
			t.Errorf("%q: another child's daemon is dead", script)
		}
		p.rest() // ends, as no process holds stdout
		other.Kill()
		other.ended()
	}
}

// A process started by one that is being killed is found by the next scan.
func TestDaemonsOfDaemonsAreKilled(t *testing.T) {
	processtest.Leaks(t)
	processtest.Needs(t, "setsid")
	// Each starts the next in a new session and exits; at most a thousand.
	const line = `if [ $1 -lt 1000 ]; then sleep 0.01; setsid sh -c "$0" "$0" $(($1+1)) & fi`
	sh, err := Resolve("sh", "/", os.Getenv("PATH"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "", func(s *Spec) {
		s.Path, s.Args = sh, []string{"-c", `setsid sh -c "$0" "$0" 0 & echo ready; exec sleep 3600`, line}
		s.Env, s.Containment = []string{"PATH=" + os.Getenv("PATH")}, contain(t)
	})
	p.expect("ready")
	p.Kill()
	p.ended()
	if left := orphans(t); len(left) > 0 {
		t.Errorf("%d live", left)
	}
}

// Without a containment the same daemon survives, which shows that the tests above test the containment.
func TestUncontainedDaemonSurvives(t *testing.T) {
	processtest.Leaks(t)
	p := start(t, "daemon pid, hang; read", nil)
	daemon := p.pid()
	p.Stdin.Close()
	p.ended()
	if !alive(daemon) {
		t.Fatal("the daemon is dead")
	}
	killOrphan(t, daemon)
}

// A guardian that is killed while children run is replaced at once, not only when the next child starts.
func TestGuardianIsReplaced(t *testing.T) {
	processtest.Leaks(t)
	c := Contain(self(t))
	var log bytes.Buffer // read once the next guardian runs
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	t.Cleanup(c.Close)
	reports(t, c, HoldsGuardian+": starts with the first child")
	first := start(t, "daemon pid, hang; hang", contained(c))
	daemon := first.pid()
	reports(t, c, "")
	g := current(c)
	if err := g.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.done
	deadline := time.Now().Add(patience)
	for current(c) == g {
		if time.Now().After(deadline) {
			t.Fatal("nothing takes the place of a guardian that was killed")
		}
		time.Sleep(time.Millisecond) // there is no event to wait for
	}
	if text := log.String(); !strings.Contains(text, "the guardian ended") ||
		!strings.Contains(text, fmt.Sprintf("pid=%d", g.proc.Pid)) {
		t.Errorf("the log does not say that the guardian was replaced: %s", text)
	}
	reports(t, c, "")
	second := start(t, "pid; hang", contained(c))
	second.pid()
	g = current(c)
	g.lifeline.Close() // as at the end of this process
	for _, p := range []*child{first, second} {
		if exit := p.ended(); exit.Signal != "SIGKILL" {
			t.Errorf("exit: %v", exit)
		}
	}
	<-g.done
	if alive(daemon) {
		t.Error("the daemon of a child older than the guardian lives")
	}
}

// Close ends the guardian without a warning.
func TestEndOfGuardianByClose(t *testing.T) {
	processtest.Leaks(t)
	defer func(before time.Duration) { guardianPause = before }(guardianPause)
	guardianPause = 0
	for range 10 {
		c := Contain(self(t))
		var log bytes.Buffer // read after Close
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		p := start(t, "out ready; hang", contained(c))
		p.expect("ready")
		reports(t, c, "")
		p.Kill()
		p.ended()
		c.Close()
		if log.Len() > 0 {
			t.Errorf("the log says: %s", &log)
		}
	}
}

// current returns the guardian of c.
func current(c *Containment) *guardian {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.guardian
}

// A stopped guardian is resumed when the next child starts.
func TestStoppedGuardianIsResumed(t *testing.T) {
	processtest.Leaks(t)
	c := Contain(self(t))
	t.Cleanup(c.Close)
	first := start(t, "pid; hang", contained(c))
	first.pid()
	reports(t, c, "")
	g := current(c)
	if err := g.proc.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, g.proc.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	second := start(t, "pid; hang", contained(c))
	second.pid()
	g.lifeline.Close() // as at the end of this process
	for _, p := range []*child{first, second} {
		if exit := p.ended(); exit.Signal != "SIGKILL" {
			t.Errorf("exit: %v", exit)
		}
	}
	<-g.done
}

// No guardian is started after Close.
func TestGuardianKilledAsTheHostCloses(t *testing.T) {
	processtest.Leaks(t)
	c := Contain(self(t))
	p := start(t, "pid; hang", contained(c))
	p.pid()
	reports(t, c, "")
	g := current(c)
	if err := g.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	<-g.done
	c.Close()
	if exit := p.ended(); exit.Signal != "SIGKILL" {
		t.Errorf("exit: %v", exit)
	}
	if last := current(c); !last.ended() {
		t.Error("a guardian is left")
	}
}

// A guardian that does not read delays its host by one write only, however many children it is told of.
func TestGuardianThatDoesNotRead(t *testing.T) {
	processtest.Leaks(t)
	idle := writeFile(t, filepath.Join(t.TempDir(), "idle"), "#!/bin/sh\nexec sleep 3600\n", 0o755)
	leaders := make(map[int]uint64)
	for pid := range 20_000 { // their lines fill the pipe several times
		leaders[pid] = 12345678901
	}
	ended := make(chan error, 1)
	go func() {
		g, err := startGuardian(idle, "host.", sweep.Marks{}, leaders)
		if err == nil {
			g.watch()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it is being told of the children")
	}
}

// A program that is not a guardian is recognized, and children start without one.
func TestNoGuardian(t *testing.T) {
	processtest.Leaks(t)
	script := writeFile(t, filepath.Join(t.TempDir(), "idle"), "#!/bin/sh\nexec sleep 3600\n", 0o755)
	for program, want := range map[string]string{
		"":              "was not told where that is",
		"/bin/true":     "not ready",
		script:          "not ready",
		"/non/existent": "no such file",
	} {
		c := Contain(program)
		p := start(t, "daemon pid, hang; read; exit 3", contained(c))
		daemon := p.pid()
		reports(t, c, want)
		p.Stdin.Close()
		if exit := p.ended(); exit.Code != 3 || alive(daemon) {
			t.Errorf("%q: exit %v, daemon alive: %t", program, exit, alive(daemon))
		}
		if g := current(c); g != nil {
			_ = g.proc.Kill() // sleep does not end with the lifeline
		}
		c.Close()
	}
}

// After the failed start of a guardian, the start of the next child tries again.
func TestGuardianIsTriedAgain(t *testing.T) {
	processtest.Leaks(t)
	program := filepath.Join(t.TempDir(), "exthost")
	c := Contain(program)
	t.Cleanup(c.Close)
	first := start(t, "pid; hang", contained(c))
	first.pid()
	reports(t, c, "no such file")
	if err := os.Symlink(self(t), program); err != nil {
		t.Fatal(err)
	}
	second := start(t, "pid; hang", contained(c))
	second.pid()
	reports(t, c, "")
	for _, p := range []*child{first, second} {
		p.Kill()
		p.ended()
	}
}

// Close without a guardian kills the remaining descendants itself.
func TestCloseSweeps(t *testing.T) {
	processtest.Leaks(t)
	c := Contain("")
	p := start(t, "out ready; hang", contained(c))
	p.expect("ready")
	c.Close()
	if exit := p.ended(); exit.Signal != "SIGKILL" {
		t.Errorf("exit: %v", exit)
	}
	c.Close()
}

// reports checks that the containment lacks only the mechanism with prefix lack; "" for none.
func reports(t *testing.T, c *Containment, lack string) {
	t.Helper()
	holds, lacks := c.Report()
	if lack == "" {
		if !slices.Equal(holds, []string{HoldsGroup, HoldsSweep, HoldsGuardian}) || len(lacks) > 0 {
			t.Errorf("holds %q, lacks %q", holds, lacks)
		}
		return
	}
	if !slices.Equal(holds, []string{HoldsGroup, HoldsSweep}) || len(lacks) != 1 || !strings.Contains(lacks[0], lack) {
		t.Errorf("holds %q, lacks %q, want %q", holds, lacks, lack)
	}
}

// BenchmarkSweep measures the sweep for a child without descendants.
func BenchmarkSweep(b *testing.B) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	b.ReportMetric(float64(len(processes)), "processes")
	h := &containedChild{c: contain(b), mark: "host.1", pid: os.Getpid(), start: sweep.StartTime(os.Getpid())}
	for b.Loop() {
		h.sweep()
	}
}
