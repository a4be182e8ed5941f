package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/helper"
	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/proc/sandbox"
	"github.com/exthost/exthost/internal/testing/processtest"
	ask "github.com/exthost/exthost/manifest/sandbox"
)

// shell starts a shell command within l.
func shell(t *testing.T, command string, l limited.Limits) *child {
	t.Helper()
	return start(t, "", func(s *Spec) {
		sh, err := Resolve("sh", "/", os.Getenv("PATH"))
		if err != nil {
			t.Fatal(err)
		}
		s.Path, s.Args, s.Env, s.Dir, s.Limits = sh, []string{
			"-c",
			command,
		}, []string{"PATH=" + os.Getenv("PATH")}, t.TempDir(), l
	})
}

func TestLimitOfOpenFiles(t *testing.T) {
	processtest.Leaks(t)
	p := shell(t, `ulimit -n; sh -c 'ulimit -n; ulimit -Hn'; ulimit -n 100 2>/dev/null || echo kept`,
		limited.Limits{OpenFiles: 20})
	if got := p.rest(); got != "20\n20\n20\nkept\n" {
		t.Errorf("limits: %q", got)
	}
	p = shell(t, `for i in 3 4 5 6 7 8 9; do eval "exec $i</dev/null" || exit; echo $i; done`,
		limited.Limits{OpenFiles: 8})
	if got := p.rest(); !strings.HasSuffix(got, "7\n") {
		t.Errorf("opened: %q", got)
	}
}

// The end of a process names what killed it: a limit of its own, the kernel without memory, another program, or nobody
// else than the host.
func TestKillerIsNamed(t *testing.T) {
	processtest.Leaks(t)
	counts := filepath.Join(t.TempDir(), "memory.events")
	count := func(n int) {
		text := fmt.Appendf(nil, "oom 9\noom_kill %d\noom_group_kill 0\n", n)
		if err := os.WriteFile(counts, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	real := oomFile
	oomFile = func() string { return counts }
	t.Cleanup(func() { oomFile = real })
	for want, p := range map[string]func() *child{
		"killed by SIGXCPU, because it reached its limit cpu_time (1s)": func() *child {
			return shell(t, "while :; do :; done", limited.Limits{CPUTime: time.Second})
		},
		"killed by SIGXFSZ, because it reached its limit file_size (1024 bytes)": func() *child {
			return shell(t, "exec dd if=/dev/zero of=big bs=4096 count=1 2>&-", limited.Limits{FileSize: 1 << 10})
		},
		"killed by SIGKILL, by the kernel, which was out of memory": func() *child {
			p := shell(t, "read line; kill -9 $$", limited.Limits{})
			count(2)
			_, _ = p.Stdin.WriteString("\n")
			return p
		},
		"exit status 137 (of a process that SIGKILL ended), by the kernel, which was out of memory": func() *child {
			p := shell(t, "read line; exit 137", limited.Limits{})
			count(2)
			_, _ = p.Stdin.WriteString("\n")
			return p
		},
		"killed by SIGKILL, which the host did not send": func() *child {
			return shell(t, "kill -9 $$", limited.Limits{CPUTime: time.Minute})
		},
		"killed by SIGSEGV": func() *child { return shell(t, "kill -SEGV $$", limited.Limits{}) },
		"killed by SIGKILL": func() *child {
			p := shell(t, "exec sleep 60", limited.Limits{})
			p.Kill()
			return p
		},
	} {
		count(1)
		if got := p().ended().String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	ignores := Process{limits: limited.Limits{CPUTime: time.Second}} // SIGXCPU
	if got := ignores.sender(Exit{Code: -1, Signal: "SIGKILL"}, 2*time.Second); !strings.Contains(got, "cpu_time (1s)") {
		t.Errorf("killed at the hard limit: %q", got)
	}
	oomFile = real
	if n := readCount(real(), "oom_kill"); n < 0 {
		t.Errorf("%s has no count", real())
	}
}

// A fork bomb ends at the limit, and the limit cannot be raised.
func TestLimitOfProcesses(t *testing.T) {
	if limited.OfSandbox() == 0 {
		t.Skip("NOT TESTED: the number of processes, which Linux bounds since 6.14")
	}
	processtest.Leaks(t)
	bomb := `(echo 30000 >/proc/sys/kernel/pid_max || umount /proc/sys/kernel/pid_max || mount -t proc proc /proc) 2>/dev/null && echo raised
		i=0; while [ $i -lt 1000 ]; do sleep 60 & i=$((i+1)); done; echo unreached`
	for _, sandboxed := range []bool{false, true} {
		p := start(t, "", func(s *Spec) {
			isolated(t)(s)
			sh, _ := Resolve("sh", "/", os.Getenv("PATH"))
			s.Path, s.Args, s.Env, s.Limits = sh, []string{
				"-c",
				bomb,
			}, []string{"PATH=" + os.Getenv("PATH")}, limited.Limits{Processes: 50}
			if sandboxed {
				s.Sandbox, s.Limits.Processes = &sandbox.Policy{Net: ask.Net{ask.NetLoopback}}, 60
			}
		})
		if got := p.rest(); got != "" {
			t.Errorf("sandboxed %v: printed %q", sandboxed, got)
		}
		if exit := p.ended(); exit.Code == 0 || !strings.Contains(strings.Join(p.Tail(), " "), "ork") { // cannot fork
			t.Errorf("sandboxed %v: exit %v, %q", sandboxed, exit, p.Tail())
		}
	}
}

// TestEachSandboxBoundsProcesses reads the limit inside sandboxes with and without a network, with and without a
// configured limit.
func TestEachSandboxBoundsProcesses(t *testing.T) {
	if limited.OfSandbox() == 0 {
		t.Skip("NOT TESTED: the number of processes, which Linux bounds since 6.14")
	}
	processtest.Leaks(t)
	cat, err := Resolve("cat", "/", os.Getenv("PATH"))
	if err != nil {
		t.Fatal(err)
	}
	for _, net := range []ask.Net{nil, {ask.NetLoopback}} {
		for stated, want := range map[int]string{0: "2348", 40: "340"} { // 300 ids are reserved
			p := start(t, "", func(s *Spec) {
				isolated(t)(s)
				s.Isolate, s.Sandbox, s.Limits.Processes = false, &sandbox.Policy{Net: net}, stated
				s.Path, s.Args = cat, []string{"/proc/sys/kernel/pid_max"}
			})
			p.expect(want)
			p.ended()
		}
	}
}

// TestSandboxStartsWhereNamespacesGetNoProc has an init that cannot mount /proc, as in a container
// with a masked one. A sandbox that requires no namespaces starts without them; other sandboxes
// fail to start.
func TestSandboxStartsWhereNamespacesGetNoProc(t *testing.T) {
	if limited.OfSandbox() == 0 || namespaces() != nil {
		t.Skip("NOT TESTED: without namespaces no sandbox has an init")
	}
	processtest.Leaks(t)
	init := filepath.Join(t.TempDir(), "init")
	report := fmt.Sprintf(`{"stage":%q,"errno":%d}`, helper.StageProc, unix.EPERM)
	if err := os.WriteFile(init, []byte("#!/bin/sh\necho '"+report+"' >&3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cat, err := Resolve("cat", "/", os.Getenv("PATH"))
	if err != nil {
		t.Fatal(err)
	}
	c := Contain(init)
	t.Cleanup(c.Close)
	sandboxed := func(s *Spec) {
		s.Path, s.Args = cat, []string{"/proc/meminfo"}
		s.Containment, s.Sandbox = c, &sandbox.Policy{BestEffort: true}
	}
	for name, asks := range map[string]func(*Spec){
		"isolation": func(s *Spec) { s.Isolate = true },
		"a network": func(s *Spec) { s.Sandbox.Net = ask.Net{ask.NetLoopback} },
		"a bound":   func(s *Spec) { s.Limits.Processes = 40 },
	} {
		s := Spec{}
		sandboxed(&s)
		asks(&s)
		if _, err := Start(t.Context(), s); !errors.Is(err, errNoProc) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		p := start(t, "", sandboxed)
		if text := p.rest(); !strings.Contains(text, "MemTotal") {
			t.Errorf("says %q", text)
		}
		p.ended()
	}
}

func TestLimitOfFileSize(t *testing.T) {
	processtest.Leaks(t)
	p := shell(t, `exec head -c 5000 /dev/zero > fits`, limited.Limits{FileSize: 5000})
	if exit := p.ended(); !exit.Success() {
		t.Errorf("exit: %v, %q", exit, p.Tail())
	}
	p = shell(t, `exec head -c 5001 /dev/zero > file`, limited.Limits{FileSize: 5000})
	if exit := p.ended(); exit.Signal != "SIGXFSZ" || exit.CoreDumped {
		t.Errorf("exit: %v, %q", exit, p.Tail())
	}
}

func TestLimitOfCPUTime(t *testing.T) {
	processtest.Leaks(t)
	p := shell(t, `while :; do :; done`, limited.Limits{CPUTime: time.Millisecond}) // rounded up to a second
	if exit := p.ended(); exit.Signal != "SIGXCPU" || exit.CoreDumped {
		t.Errorf("exit: %v", exit)
	}
	p = shell(t, `trap '' XCPU; while :; do :; done`, limited.Limits{CPUTime: time.Second})
	if exit := p.ended(); exit.Signal != "SIGKILL" {
		t.Errorf("exit: %v", exit)
	}
}

func TestLimitOfMemory(t *testing.T) {
	processtest.Leaks(t)
	for block, fits := range map[string]bool{"10M": true, "200M": false} {
		p := shell(t, `exec dd if=/dev/zero of=/dev/null count=1 bs=`+block, limited.Limits{Memory: 100 << 20})
		if exit := p.ended(); exit.Success() != fits {
			t.Errorf("%s: %v, %q", block, exit, p.Tail())
		}
	}
}

// Programs of all kinds start with limits, and a failed start reports its reason.
func TestLimitedStart(t *testing.T) {
	processtest.Leaks(t)
	l := limited.Limits{OpenFiles: 64, Memory: 1 << 30}
	for range 20 {
		p := start(t, "out ready; eof; exit 3", func(s *Spec) { s.Limits = l })
		p.expect("ready")
		p.Stdin.Close()
		if exit := p.ended(); exit.Code != 3 {
			t.Errorf("exit: %v, %q", exit, p.Tail())
		}
	}
	_, err := Start(t.Context(), Spec{Path: "/non/existent", Limits: l})
	var failed *StartError
	if !errors.As(err, &failed) || failed.Reason != NotFound {
		t.Errorf("error: %v", err)
	}
	if limited.Late() {
		t.Log("this system forbids tracing")
	}
}

func TestEveryChildIsTamed(t *testing.T) {
	processtest.Leaks(t)
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	score, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	want := "0\n" + strconv.Itoa(min(score+800, 1000)) + "\n"
	for _, l := range []limited.Limits{{}, {OpenFiles: 64}} {
		p := shell(t, `read go; ulimit -Hc; cat /proc/self/oom_score_adj`, l)
		if _, err := p.Stdin.WriteString("go\n"); err != nil {
			t.Fatal(err)
		}
		if got := p.rest(); got != want {
			t.Errorf("%+v: core limit and score %q, want %q", l, got, want)
		}
	}
}
