package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { Main(Sharded(m), nil) }

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// end runs the cleanups, as the end of a test does.
func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func run(t *testing.T, script string) (cmd *exec.Cmd, stdout *os.File) {
	path, env := Script(t, script)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd = exec.Command(path)
	cmd.Env = env
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, r
}

func readLine(t *testing.T, f *os.File) string {
	buf := make([]byte, 100)
	n, err := f.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(buf[:n]))
}

func TestLeaksSeesEverything(t *testing.T) {
	Leaks(t) // the processes that the recorder's Leaks kills must be gone too
	r := &recorder{TB: t}
	Leaks(r)

	stop := make(chan struct{})
	go func() { <-stop }()
	file, err := os.Open("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	zombie, out := run(t, "exit 0") // never waited for
	out.Close()
	zombiePID := zombie.Process.Pid
	if err := unix.Waitid(unix.P_PID, zombiePID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // it is a zombie
		t.Fatal(err)
	}
	parent, out := run(t, "daemon pid, hang; eof")
	daemon := readLine(t, out)
	out.Close()
	if err := parent.Wait(); err != nil {
		t.Fatal(err)
	}

	all := leakGrace
	leakGrace = 100 * time.Millisecond
	r.end()
	leakGrace = all
	close(stop)
	file.Close()
	zombie.Process.Release()
	for _, want := range []string{
		"TestLeaksSeesEverything.func",
		"/proc/version",
		fmt.Sprintf("process %d, state Z", zombiePID),
		"process " + daemon,
	} {
		if !slices.ContainsFunc(r.errors, func(e string) bool { return strings.Contains(e, want) }) {
			t.Errorf("%q is not among what was left behind: %q", want, r.errors)
		}
	}
}

func TestLeaksIsContent(t *testing.T) {
	r := &recorder{TB: t}
	Leaks(r)
	done := make(chan struct{})
	go close(done)
	cmd, out := run(t, "fork out ready, exit 0; eof")
	readLine(t, out)
	out.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	<-done
	if r.end(); len(r.errors) > 0 {
		t.Errorf("complaints about a clean test: %q", r.errors)
	}
}
