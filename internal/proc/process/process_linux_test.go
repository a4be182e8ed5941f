package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
)

func init() {
	verbs["holds"] = func(path string) { fmt.Println(holds(path)) }
	verbs["leader"] = func(string) {
		sid, _ := unix.Getsid(0)
		fmt.Println(sid == os.Getpid() && unix.Getpgrp() == os.Getpid())
	}
	verbs["inherit"] = func(mode string) {
		// A descriptor without CLOEXEC, as a parent may leave behind.
		if _, err := unix.Open(marker, unix.O_RDONLY, 0); err != nil {
			panic(err)
		}
		if mode == "guarded" {
			if err := CloseOnExecAll(); err != nil {
				panic(err)
			}
		}
		self, _ := os.Executable()
		p, err := Start(context.Background(), Spec{Path: self, Env: processtest.Env("holds " + marker)})
		if err != nil {
			panic(err)
		}
		if _, err := p.Stdout.WriteTo(os.Stdout); err != nil {
			panic(err)
		}
		<-p.Done()
	}
}

// marker is a file that no process has open by chance.
const marker = "/proc/version"

// holds reports whether this process has an open descriptor for path.
func holds(path string) bool {
	entries, _ := os.ReadDir("/proc/self/fd")
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		return target == path
	})
}

func TestChildrenInheritNoDescriptors(t *testing.T) {
	processtest.Leaks(t)
	for mode, want := range map[string]string{
		"open":    "true\n", // a child would inherit it without CloseOnExecAll
		"guarded": "false\n",
	} {
		if got := start(t, "inherit "+mode, nil).rest(); got != want {
			t.Errorf("%s: the child has the descriptor: %s", mode, got)
		}
	}
}

func TestEachChildLeadsASession(t *testing.T) {
	processtest.Leaks(t)
	start(t, "leader", nil).expect("true")
}

// A pidfd waits in the poller: a hundred children must not need a hundred threads.
func TestWaitingCostsNoThread(t *testing.T) {
	processtest.Leaks(t)
	const children = 30
	before := threads(t)
	for range children {
		start(t, "out ready; hang", nil).expect("ready")
	}
	if more := threads(t) - before; more > children/2 {
		t.Errorf("%d children cost %d threads", children, more)
	}
}

func threads(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A grandchild in the group ends with the child, even if it holds pipes open.
func TestGroupDiesWithTheChild(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "fork ignore, out ready, hang; read; exit 3", nil)
	c.expect("ready")
	c.Stdin.Close()
	if exit := c.ended(); exit.Code != 3 {
		t.Errorf("exit: %v", exit)
	}
	c.rest() // ends, as no process holds stdout; Leaks checks that the grandchild has ended
}

// A grandchild that left the group and holds all pipes does not delay Done.
func TestDeathIsSeenFromWait(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "daemon pid, hang; read; err last words; exit 3", nil)
	daemon := c.pid()
	c.Stdin.Close()
	if exit := c.ended(); exit.Code != 3 {
		t.Errorf("exit: %v", exit)
	}
	if got := c.Tail(); len(got) != 1 || got[0] != "last words" {
		t.Errorf("tail: %q", got)
	}
	if !alive(daemon) {
		t.Error("the daemon is dead, so the test has shown nothing")
	}
	killOrphan(t, daemon)
	c.rest()
}

// A daemon that floods the dead child's stderr cannot keep Done from closing.
func TestFloodingDaemon(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, `daemon pid, flood 1000000000 more\n; read`, nil)
	daemon := c.pid()
	c.Stdin.Close()
	if exit := c.ended(); !exit.Success() {
		t.Errorf("exit: %v", exit)
	}
	killOrphan(t, daemon)
}

func TestStopOfAStoppedChild(t *testing.T) {
	processtest.Leaks(t)
	c := start(t, "out ready; hang", nil)
	c.expect("ready")
	if err := unix.Kill(c.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(canceled(), 0); err != nil {
		t.Fatal(err)
	}
	if exit := c.ended(); exit.Signal != "SIGKILL" {
		t.Errorf("exit: %v", exit)
	}
}

// A child that ignores SIGTERM is killed after its KillGrace, neither before nor after.
func TestKillGrace(t *testing.T) {
	processtest.Leaks(t)
	for grace, least := range map[time.Duration]time.Duration{-1: 0, time.Hour: 1100 * time.Millisecond} {
		p := start(t, "ignore; out ready; hang", func(s *Spec) { s.KillGrace = grace })
		p.expect("ready")
		limit := patience
		if least > 0 {
			limit = least // the end of the context kills the child
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := p.Stop(ctx, 0)
		if took := time.Since(began); err != nil || p.Exit().Signal != "SIGKILL" || took < least {
			t.Errorf("grace %v: %v, %v after %v", grace, err, p.Exit(), took)
		}
		cancel()
	}
}

// A start fails at each descriptor in turn, without a leak or panic.
func TestOutOfDescriptors(t *testing.T) {
	processtest.Leaks(t)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	path, env := processtest.Script(t, "out ready; eof")
	refused, started := 0, 0
	for k := range 14 {
		limit := unix.Rlimit{Cur: uint64(nextDescriptor(t) + k), Max: old.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		p, err := Start(t.Context(), Spec{Path: path, Env: env})
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
		var failed *StartError
		switch {
		case err == nil:
			started++
			if err := p.Stop(t.Context(), patience); err != nil || !p.Exit().Success() {
				t.Errorf("k = %d: %v, %v", k, err, p.Exit())
			}
			p.Stdout.Close()
		case errors.As(err, &failed) && failed.Reason == Resource:
			refused++
		default:
			t.Errorf("k = %d: %v", k, err)
		}
	}
	if refused < 6 || started == 0 {
		t.Errorf("%d refused, %d started: the sweep missed its range", refused, started)
	}
}

// nextDescriptor returns the lowest free descriptor.
func nextDescriptor(t *testing.T) int {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return int(f.Fd())
}

// pid reads a process id from stdout.
func (c *child) pid() int {
	c.t.Helper()
	pid, err := strconv.Atoi(c.line())
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

// alive reports whether pid runs and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// killOrphan ends a daemon whose parent is dead. Its pid stays taken until processtest.Leaks reaps it, so no other
// process is hit.
func killOrphan(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
}

// Dying distinguishes a process that is exiting from one that runs.
func TestDying(t *testing.T) {
	processtest.Leaks(t)
	path, env := processtest.Script(t, "eof")
	p, err := Start(t.Context(), Spec{Path: path, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stdout.Close()
	if p.Dying() {
		t.Error("it runs")
	}
	p.Stdin.Close()
	<-p.Exited()
	if !p.Dying() {
		t.Error("it has ended")
	}
	<-p.Done()
	if !p.Dying() {
		t.Error("it has been collected")
	}
	if sweep.Dying(os.Getpid()) {
		t.Error("we ourselves")
	}
}
