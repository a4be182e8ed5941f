package runtime

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command that begins with nice lowers the priority of the child's session.
func TestNiceCountsBetweenSessions(t *testing.T) {
	fault(t)
	nice, err := exec.LookPath("nice")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skipf("NOT TESTED: this kernel has no autogroups (CONFIG_SCHED_AUTOGROUP): %v", err)
	}
	s := spec(t, "init echo; echo")
	m := s.Manifest
	m.Transport.Args = []string{"-n", "7", m.Transport.Command}
	m.Transport.Command = nice
	r := start(t, s)
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := 20 - raw // 20 minus the nice value
	want := fmt.Sprintf(" nice %d\n", min(ours+7, 19)-ours)
	group := ""
	for start := time.Now(); !strings.HasSuffix(group, want); {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", r.Info().PID))
		if group = string(b); err != nil || time.Since(start) > patience {
			t.Fatalf("autogroup: %q, %v, want%q", group, err, want)
		}
		if _, err := r.callTool(); err != nil { // also lets the host continue
			t.Fatal(err)
		}
	}
}
