package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// isolated returns an option for isolated children, whose init is this test binary. It skips the test if the kernel
// forbids namespaces.
func isolated(t *testing.T) func(*Spec) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Contain(exe)
	t.Cleanup(c.Close)
	mod := func(s *Spec) { s.Containment, s.Isolate = c, true }
	path, env := processtest.Script(t, "exit 0")
	s := Spec{Path: path, Env: env}
	mod(&s)
	p, err := Start(t.Context(), s)
	if failed, ok := errors.AsType[*StartError](err); ok && failed.Reason == Isolation {
		t.Skipf("NOT TESTED: %s: this system gives no pid namespace: %v", t.Name(), err)
	}
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	p.Stdout.Close()
	return mod
}

// An isolated child has its own process ids and /proc, and otherwise the same pipes, arguments, directory, privileges
// and limits as other children.
func TestIsolatedChild(t *testing.T) {
	processtest.Leaks(t)
	dir := t.TempDir()
	p := start(t, "cwd; args; read; out bye; close; eof; exit 3", func(s *Spec) {
		isolated(t)(s)
		s.Dir, s.Args = dir, []string{"a b", ""}
	})
	p.expect(dir)
	path, _ := processtest.Script(t, "")
	p.expect(path)
	p.expect("a b")
	p.expect("")
	if !alive(p.PID()) {
		t.Errorf("PID %d is not one that we know", p.PID())
	}
	if _, err := p.Stdin.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	p.expect("bye")
	if rest := p.rest(); rest != "" { // ends with the child's stdout, not only with the init
		t.Errorf("after its stdout was closed: %q", rest)
	}
	p.Stdin.Close()
	if exit := p.ended(); exit.Code != 3 || exit.Signal != "" {
		t.Errorf("exit: %v", exit)
	}
	p = shell(t, `test "$(cat /proc/$$/comm)" = sh && readlink /proc/self/ns/pid; ls -d /proc/[0-9]* | wc -l; grep CapEff /proc/self/status; id -u`, limited.Limits{
		OpenFiles: 64,
	})
	plain := p.rest()
	p = start(t, "", func(s *Spec) {
		isolated(t)(s)
		sh, _ := Resolve("sh", "/", os.Getenv("PATH"))
		s.Path, s.Env = sh, []string{"PATH=" + os.Getenv("PATH")}
		s.Args = []string{
			"-c",
			`test "$(cat /proc/$$/comm)" = sh && readlink /proc/self/ns/pid; ls -d /proc/[0-9]* | wc -l; grep CapEff /proc/self/status; id -u; cat /proc/self/oom_score_adj; ulimit -n`,
		}
		s.Limits = limited.Limits{OpenFiles: 64}
	})
	got := strings.Split(p.rest(), "\n")
	before := strings.Split(plain, "\n")
	if len(got) != 7 || got[0] == before[0] || !strings.HasPrefix(got[0], "pid:") {
		t.Fatalf("in its namespace: %q; outside: %q, %q", got, before, p.Tail())
	}
	if len(got[1]) > 1 {
		t.Errorf("it sees %s processes", got[1])
	}
	if got[2] != before[2] || got[3] != before[3] {
		t.Errorf("its rights %s as user %s, outside %s as %s", got[2], got[3], before[2], before[3])
	}
	if got[4] < "800" || got[5] != "64" {
		t.Errorf("oom_score_adj %s, open files %s", got[4], got[5])
	}
}

// The exit of an isolated child is reported, whether it exits by itself or a signal ends it.
func TestIsolatedEnd(t *testing.T) {
	processtest.Leaks(t)
	iso := isolated(t)
	for script, want := range map[string]Exit{
		"exit 0":  {},
		"exit 42": {Code: 42},
		"kill 9":  {Code: -1, Signal: "SIGKILL"},
		"kill 15": {Code: -1, Signal: "SIGTERM"},
	} {
		p := start(t, script, iso)
		if exit := p.ended(); exit.Code != want.Code || exit.Signal != want.Signal {
			t.Errorf("%s: %+v", script, exit)
		}
	}
	p := start(t, "out ready; eof; hang", iso)
	p.expect("ready")
	if err := p.Stop(t.Context(), 0); err != nil || p.Exit().Signal != "SIGTERM" {
		t.Errorf("Stop: %v, %v", err, p.Exit())
	}
	p = start(t, "ignore; out ready; hang", iso)
	p.expect("ready")
	if err := p.Stop(t.Context(), 0); err != nil || p.Exit().Signal != "SIGKILL" {
		t.Errorf("Stop of a deaf one: %v, %v", err, p.Exit())
	}
}

// All processes of a pid namespace end with the child: a daemon that left group, session and environment, and a chain
// that forks all the time.
func TestNamespaceHoldsWhatASweepCannot(t *testing.T) {
	processtest.Leaks(t)
	processtest.Needs(t, "setsid")
	iso := isolated(t)
	file := filepath.Join(t.TempDir(), "beat")
	for name, line := range map[string]string{
		"daemon": `(env -i PATH="$PATH" setsid sh -c 'while :; do echo x >> "$0"; done' "$0" &); until [ -s "$0" ]; do :; done; echo ready; exec sleep 3600`,
		"chain":  `echo 'echo x >> "$1"; setsid sh "$0" "$0" "$1" &' > "$0.sh"; sed -i 's/"$0" "$0"/"$0"/' "$0.sh"; env -i PATH="$PATH" setsid sh "$0.sh" "$0"; until [ -s "$0" ]; do :; done; echo ready; exec sleep 3600`,
	} {
		_ = os.Remove(file)
		p := start(t, "", func(s *Spec) {
			iso(s)
			sh, _ := Resolve("sh", "/", os.Getenv("PATH"))
			s.Path, s.Env, s.Args = sh, []string{"PATH=" + os.Getenv("PATH")}, []string{"-c", line, file}
		})
		p.expect("ready")
		p.Kill()
		p.ended()
		size := sizeOf(t, file)
		p.rest() // ends, as no process holds stdout
		if now := sizeOf(t, file); now != size {
			t.Errorf("%s: still writes after the end of its child: %d bytes, then %d", name, size, now)
		}
	}
}

func sizeOf(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Without a guardian, the end of the host still ends an isolated child and its daemons.
func TestNamespaceEndsWithItsHost(t *testing.T) {
	processtest.Leaks(t)
	possible := false
	t.Run("probe", func(t *testing.T) { isolated(t); possible = true }) // the guardian ends with the subtest
	if !possible {
		t.Skipf("NOT TESTED: %s: this system gives no pid namespace", t.Name())
	}
	path, env := processtest.Script(t, "isolate")
	cmd := exec.Command(path)
	cmd.Env = env
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var init, guardian int
	if _, err := fmt.Fscan(out, &init, &guardian); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{guardian, cmd.Process.Pid} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	gone(t, []int{init}, patience)
}

func init() {
	verbs["isolate"] = func(string) {
		exe, _ := os.Executable()
		c := Contain(exe)
		p, err := Start(context.Background(),
			Spec{Path: exe, Env: processtest.Env("daemon ignore, hang; ignore; hang"), Containment: c, Isolate: true})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		c.guardian.isUp()
		fmt.Println(p.PID(), c.guardian.proc.Pid)
		<-p.Done()
	}
}

// Without root a child gets a user namespace, and no more privileges than before.
func TestIsolatedUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests are this one")
	}
	dir, err := os.MkdirTemp("", "") // other users cannot enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(writeFile(t, filepath.Join(dir, "test"), string(program), 0o755),
		"-test.v", "-test.run",
		"^(TestConceal|TestPrivileges|TestIsolatedChild|"+
			"TestIsolatedEnd|TestLimitOfProcesses|TestNamespaceHoldsWhatASweepCannot)$")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "NOT TESTED") {
		t.Skipf("NOT TESTED: %s: this system gives no pid namespace to who is not root", t.Name())
	}
	if err != nil || strings.Count(string(out), "--- PASS") != 6 {
		t.Errorf("%v\n%s", err, out)
	}
}

// A failed start has the same error as without a namespace; a missing namespace has its own.
func TestIsolatedStartFails(t *testing.T) {
	processtest.Leaks(t)
	iso := isolated(t)
	dir := t.TempDir()
	for path, reason := range map[string]Reason{
		filepath.Join(dir, "none"):                               NotFound,
		writeFile(t, filepath.Join(dir, "plain"), "x", 0o600):    NotExecutable,
		writeFile(t, filepath.Join(dir, "text"), "hello", 0o700): BadFormat,
	} {
		s := Spec{Path: path}
		iso(&s)
		_, err := Start(t.Context(), s)
		if failed, ok := errors.AsType[*StartError](err); !ok || failed.Reason != reason {
			t.Errorf("%s: %v, want %s", path, err, reason)
		}
	}
	for name, c := range map[string]*Containment{
		"no containment": nil,
		"no program":     contain(t),
		"not exthost":    Contain("/bin/true"),
	} {
		_, err := Start(t.Context(), Spec{Path: "/bin/true", Isolate: true, Containment: c})
		if failed, ok := errors.AsType[*StartError](err); !ok || failed.Reason != Isolation ||
			!strings.Contains(err.Error(), "runtime.isolate") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
	if _, err := Start(canceled(), func() (s Spec) { iso(&s); s.Path = "/bin/true"; return s }()); err == nil {
		t.Error("a canceled start succeeds")
	}
}
