package sweep

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// patience bounds sweeps. No test is expected to wait that long.
const patience = time.Minute

// subject is a shell in its own session.
type subject struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T, script string, environ ...string) *subject {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, out := processtest.Piped(t, cmd)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return &subject{cmd, t, in, out}
}

func (s *subject) pid() int { return s.Process.Pid }

// line returns the next line of s.
func (s *subject) line() string {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// tell writes a line to s.
func (s *subject) tell(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// ended returns the signal that ended s.
func (s *subject) ended() syscall.Signal {
	_ = s.Wait() // the state has the result
	return s.ProcessState.Sys().(syscall.WaitStatus).Signal()
}

// A pid may be reused between scan and kill, and so may a leader's.
func TestUnrelatedProcessesAreSpared(t *testing.T) {
	processtest.Leaks(t)
	stranger := start(t, "echo ready; exec sleep 3600")
	stranger.line()
	began := StartTime(stranger.pid())
	for _, q := range []*Sweeper{
		// another process's session
		{Mark: []byte("host.1"), Known: map[int]uint64{stranger.pid(): began - 1}},
		{Mark: []byte("host.1"), Known: map[int]uint64{stranger.pid(): began}, Since: began + 1}, // too young
	} {
		q.Sweep(patience)
	}
	var q Sweeper
	if err := q.kill(stat{pid: stranger.pid(), start: began - 1}); err != nil {
		t.Error(err)
	}
	if err := stranger.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if sig := stranger.ended(); sig != syscall.SIGTERM {
		t.Errorf("it ended by %v", sig) // a SIGKILL would have come first
	}
}

// In a session that is older than the child, only the marked process is killed.
func TestOlderSessionIsSpared(t *testing.T) {
	processtest.Leaks(t)
	user := start(t, `read go; EXTHOST_COOKIE=host.1 sh -c 'echo $$; exec sleep 3600' & wait; echo spared; read go`)
	began := StartTime(user.pid())
	younger := func() uint64 {
		s := start(t, "read end")
		defer s.ended()
		defer s.in.Close()
		return StartTime(s.pid())
	}
	for younger() <= began { // until the system clock has ticked
	}
	user.tell("go")
	member := user.line()
	q := Sweeper{Mark: []byte("host.1"), Since: began + 1, Known: make(map[int]uint64)}
	q.Sweep(patience)
	if line := user.line(); line != "spared" {
		t.Errorf("the user says %q", line)
	}
	if pid, _ := strconv.Atoi(member); !Dying(pid) {
		t.Error("the marked one lives")
	}
}

// A process in an exec has no environment for a moment: it must not escape because of that.
func TestNobodyEscapesByExec(t *testing.T) {
	processtest.Leaks(t)
	execs := start(t, `echo ready; exec sh -c "$AGAIN"`, `AGAIN=exec sh -c "$AGAIN"`, "EXTHOST_COOKIE=host.1")
	execs.line()
	var r reader
	blank := 0
	for range 3000 {
		s, _ := r.stat(execs.pid())
		r.addMarks(&s)
		switch {
		case hasMark(s.marks, []byte("host.1")):
		case s.blank:
			blank++
		default:
			t.Fatalf("an exec hides it: %+v", s)
		}
	}
	t.Logf("%d looks were in the middle of an exec", blank)
	q := Sweeper{Mark: []byte("host.1"), Known: make(map[int]uint64), Since: StartTime(execs.pid())}
	q.Sweep(patience)
	if sig := execs.ended(); sig != syscall.SIGKILL {
		t.Errorf("it ended by %v", sig)
	}
}

// A program that was started with an empty environment is nothing to wait for: each guardian would stay for a minute.
func TestEmptyEnvironmentIsNotAnExec(t *testing.T) {
	processtest.Leaks(t)
	bare := start(t, `exec env -i sh -c 'echo ready; read go'`)
	bare.line()
	var r reader
	for _, s := range r.processes(nil, StartTime(bare.pid())).processes {
		if s.pid == bare.pid() && (s.blank || !s.bare) {
			t.Errorf("blank %t, bare %t", s.blank, s.bare)
		}
	}
	bare.tell("go")
}

func TestMarks(t *testing.T) {
	processtest.Leaks(t)
	for _, test := range []struct {
		environ, mark string
		want          bool
	}{
		{"EXTHOST_COOKIE=a.1", "a.1", true},
		{"EXTHOST_COOKIE=a.1", "a.", true},
		{"EXTHOST_COOKIE=a.12", "a.1", false},
		{"EXTHOST_COOKIE=b.7 a.1", "a.1", true},
		{"EXTHOST_COOKIE=b.7 a.1", "b.", true},
		{"EXTHOST_COOKIE=ba.1", "a.", false},
		{"XEXTHOST_COOKIE=a.1", "a.1", false},
		{"X=EXTHOST_COOKIE=a.1", "a.1", false},
		{"LONG=" + strings.Repeat("x", 100<<10), "a.1", false},
	} {
		p := start(t, "echo ready; exec sleep 3600", test.environ)
		p.line()
		var r reader
		s := stat{pid: p.pid()}
		r.addMarks(&s)
		for deadline := time.Now().Add(patience); s.blank && time.Now().Before(deadline); { // in the middle of its exec
			s = stat{pid: p.pid()}
			r.addMarks(&s)
		}
		if got := hasMark(s.marks, []byte(test.mark)); got != test.want || s.blank {
			t.Errorf("%.30q has mark %q: %t, blank %t", test.environ, test.mark, got, s.blank)
		}
	}
}
