package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/helper"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/internal/testing/stormtest"
)

// tree is a script: $1 nested shells, each of which also starts a program. All print their pids.
const tree = `echo $$; if [ "$1" -gt 0 ]; then sh -c "$0" "$0" $(($1-1)) & fi; sleep 3600`

// zoo lists the children of the host that is killed, with the number of pids that each prints.
var zoo = map[string]struct {
	pids   int
	script string   // for this test binary, or
	argv   []string // any program
}{
	"plain":                 {pids: 1, script: "pid; hang"},
	"ignores SIGTERM":       {pids: 1, script: "ignore; pid; hang"},
	"stopped":               {pids: 1, script: "pid; kill 19"},
	"setsid daemon":         {pids: 2, script: "daemon pid, hang; pid; hang"},
	"stopped setsid daemon": {pids: 2, script: "daemon pid, kill 19; pid; hang"},
	"four levels, as npx's": {pids: 4, argv: []string{"sh", "-c", tree, tree, "3"}},
	"orphaned setsid daemon": {
		pids: 2,
		argv: []string{"sh", "-c", `(setsid sh -c 'echo $$; sleep 3600' &); echo $$; sleep 3600`},
	},
	"without environment": {
		pids: 2,
		argv: []string{"sh", "-c", `env -i sh -c 'echo $$; sleep 3600' & echo $$; sleep 3600`},
	},
	"setsid without environment": {
		pids: 2,
		argv: []string{"sh", "-c", `setsid env -i sh -c 'echo $$; sleep 3600' & echo $$; sleep 3600`},
	},
	"setsid without environment and mark": {
		pids: 2,
		argv: []string{"sh", "-c", `setsid env -i prlimit --locks=5:5 sh -c 'echo $$; sleep 3600' & echo $$; sleep 3600`},
	},
	"stopped leader of a daemon": {
		pids: 2,
		argv: []string{"sh", "-c", `setsid sh -c 'echo $$; sleep 3600' & echo $$; kill -STOP $$`},
	},
}

func init() {
	// host is a host with the zoo or one child. It prints all pids and runs until it is killed; at the end of stdin it
	// calls Close.
	verbs["host"] = func(what string) {
		c := Contain(ourselves())
		var children []*Process
		for name, animal := range zoo {
			if what != "" && name != what {
				continue
			}
			p := hatch(c, animal.script, animal.argv)
			children = append(children, p)
			lines := bufio.NewScanner(p.Stdout)
			for range animal.pids {
				lines.Scan()
				fmt.Println(lines.Text())
			}
		}
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		for _, p := range children {
			_ = p.Stop(context.Background(), 0)
		}
		c.Close()
		fmt.Println("closed")
	}

	// unguarded is a program that embeds a host, without exthost as its guardian. It runs until it is killed.
	verbs["unguarded"] = func(string) {
		out := bufio.NewReader(hatch(Contain(""), "pid; hang", nil).Stdout)
		pid, err := out.ReadString('\n')
		if err != nil {
			panic(err)
		}
		fmt.Print(pid, "ready\n")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	}
}

func ourselves() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func hatch(c *Containment, script string, argv []string) *Process {
	s := Spec{Path: ourselves(), Env: processtest.Env(script), Containment: c}
	if argv != nil {
		path, err := exec.LookPath(argv[0])
		if err != nil {
			panic(err)
		}
		s.Path, s.Args, s.Env = path, argv[1:], []string{"PATH=" + os.Getenv("PATH")}
	}
	p, err := Start(context.Background(), s)
	if err != nil {
		panic(err)
	}
	return p
}

// TestHostKilled kills hosts with all kinds of children. This process adopts the orphans, to see them all.
func TestHostKilled(t *testing.T) {
	processtest.Leaks(t)
	processtest.Needs(t, "setsid", "prlimit")
	rounds, limit := stormtest.Sized(3, 200), stormtest.Sized(patience, time.Second)
	neighbour := start(t, "out ready; hang", func(s *Spec) {
		s.Env = append(s.Env, sweep.CookieVar+"=another.1 host.2")
	})
	neighbour.expect("ready")
	var longest time.Duration
	for range rounds {
		h := newHost(t, "host")
		if len(h.pids) < 21 {
			t.Fatalf("only %d processes: %v", len(h.pids), h.pids)
		}
		h.kill()
		longest = max(longest, h.gone(limit))
	}
	t.Logf("%d hosts killed; the longest end took %v", rounds, longest)
	if !alive(neighbour.PID()) {
		t.Error("the neighbour is dead")
	}
}

// TestGuardianIgnoresSignals sends the guardian the signals that would end a host.
func TestGuardianIgnoresSignals(t *testing.T) {
	processtest.Leaks(t)
	h := newHost(t, "host setsid daemon")
	guardian := h.guardian()
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if err := unix.Kill(guardian, sig); err != nil {
			t.Fatal(err)
		}
	}
	if sid, _ := unix.Getsid(guardian); sid != guardian {
		t.Errorf("the guardian %d is in session %d", guardian, sid)
	}
	h.kill()
	h.gone(patience)
}

// TestGuardianEndsWithItsHost closes a host without killing it.
func TestGuardianEndsWithItsHost(t *testing.T) {
	processtest.Leaks(t)
	h := newHost(t, "host setsid daemon")
	guardian := h.guardian()
	h.in.Close()
	if line := h.line(); line != "closed" {
		t.Fatalf("the host says %q", line)
	}
	for _, pid := range append(h.pids, guardian) {
		if alive(pid) {
			t.Errorf("%d is alive", pid)
		}
	}
	if err := h.Wait(); err != nil {
		t.Error(err)
	}
}

// TestChildEndsWithAnUnguardedHost kills a host without guardian, whose child does not read stdin.
func TestChildEndsWithAnUnguardedHost(t *testing.T) {
	processtest.Leaks(t)
	h := newHost(t, "unguarded")
	h.kill()
	h.gone(patience)
}

// A host inside an extension of another host: both contain its children.
func TestHostInsideAnExtension(t *testing.T) {
	processtest.Leaks(t)
	c := Contain(ourselves())
	outer := start(t, "host setsid daemon", func(s *Spec) { s.Containment = c })
	daemon, leader := outer.pid(), outer.pid()
	outer.expect("ready")
	outer.Kill()
	outer.ended()
	if alive(daemon) || alive(leader) {
		t.Error("what an inner host started outlived the extension that it was")
	}
	c.Close()
	gone(t, nil, patience)
}

// testHost is a process that runs the verb host or unguarded.
type testHost struct {
	*exec.Cmd
	t    *testing.T
	in   *os.File
	out  *bufio.Reader
	pids []int
}

func newHost(t *testing.T, script string) *testHost {
	t.Helper()
	cmd := exec.Command(ourselves())
	cmd.Env = append(os.Environ(), processtest.Env(script)...)
	cmd.Stderr = os.Stderr
	stdin, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	err = cmd.Start()
	stdin.Close()
	stdout.Close()
	t.Cleanup(func() { in.Close(); out.Close() })
	if err != nil {
		t.Fatal(err)
	}
	h := &testHost{Cmd: cmd, t: t, in: in, out: bufio.NewReader(out)}
	_ = out.SetReadDeadline(time.Now().Add(patience))
	for line := h.line(); line != "ready"; line = h.line() {
		pid, err := strconv.Atoi(line)
		if err != nil || !alive(pid) {
			t.Fatalf("no living pid: %q", line)
		}
		h.pids = append(h.pids, pid)
	}
	return h
}

func (h *testHost) line() string {
	h.t.Helper()
	line, err := h.out.ReadString('\n')
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// guardian returns the guardian of the host once it is ready.
func (h *testHost) guardian() int {
	h.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		for _, pid := range pids() {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			// The guardian ignores signals before it reports that it is ready.
			if string(cmdline) == fmt.Sprintf("%s\x00of\x00%d\x00", helper.GuardianName, h.Process.Pid) &&
				ignores(status, unix.SIGTSTP) {
				return pid
			}
		}
	}
	h.t.Fatal("no guardian")
	return 0
}

// ignores reports whether a process with this status ignores sig.
func ignores(status []byte, sig unix.Signal) bool {
	_, after, _ := strings.Cut(string(status), "SigIgn:\t")
	mask, _, _ := strings.Cut(after, "\n")
	bits, _ := strconv.ParseUint(mask, 16, 64)
	return bits&(1<<(sig-1)) != 0
}

// kill kills the host alone.
func (h *testHost) kill() {
	h.t.Helper()
	if err := h.Process.Kill(); err != nil {
		h.t.Fatal(err)
	}
	_ = h.Wait() // the error is the kill
}

// gone waits until no process of the host is left, including the guardian.
func (h *testHost) gone(limit time.Duration) time.Duration {
	h.t.Helper()
	return gone(h.t, h.pids, limit)
}

func gone(t *testing.T, pids []int, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		left := orphans(t)
		for _, pid := range pids {
			if alive(pid) {
				left = append(left, pid)
			}
		}
		took := time.Since(began)
		if len(left) == 0 {
			return took
		}
		if took > limit {
			for _, pid := range left {
				cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("%d is alive after %v: %q", pid, took, cmdline)
			}
			t.FailNow()
		}
		time.Sleep(time.Millisecond)
	}
}

// orphans reaps the dead orphans that this process has adopted and returns the running ones.
func orphans(t *testing.T) (living []int) {
	for _, pid := range pids() {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		_, after, _ := strings.Cut(string(stat), ") ") // no name here contains that
		if f := strings.Fields(after); len(f) < 2 || f[1] != strconv.Itoa(os.Getpid()) ||
			strings.Contains(string(environ), "another.1 host.2") {
			continue
		}
		if after[0] != 'Z' && after[0] != 'X' {
			living = append(living, pid)
			continue
		}
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	}
	return living
}

// pids returns all processes of the system.
func pids() (all []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		all = append(all, pid)
	}
	return all
}
