package process

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/testing/processtest"
)

// nicely starts a child through nice and waits until nice has executed it.
func nicely(t *testing.T, nice int) *child {
	t.Helper()
	if _, err := os.Stat("/proc/self/autogroup"); err != nil {
		t.Skipf("NOT TESTED: this kernel has no autogroups (CONFIG_SCHED_AUTOGROUP): %v", err)
	}
	c := start(t, "out ready; eof", func(s *Spec) {
		command, err := Resolve("nice", "/", os.Getenv("PATH"))
		if err != nil {
			t.Skipf("NOT TESTED: %v", err)
		}
		s.Path, s.Args = command, []string{"-n", fmt.Sprint(nice), s.Path}
	})
	c.expect("ready")
	return c
}

// wantGroupNice checks the nice value of the session of a child that was started with this increment.
func wantGroupNice(t *testing.T, c *child, more int) {
	t.Helper()
	ours, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Error(err)
	}
	nice := 20 - ours // 20 minus the nice value
	checkGroupNice(t, c, min(nice+more, 19)-nice)
}

func checkGroupNice(t *testing.T, c *child, want int) {
	t.Helper()
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", c.PID()))
	if _, got, _ := strings.Cut(string(group), " "); err != nil || got != fmt.Sprintf("nice %d\n", want) {
		t.Errorf("the session of a child has %q, %v, want nice %d", group, err, want)
	}
}

func TestFollowNice(t *testing.T) {
	processtest.Leaks(t)
	for _, nice := range []int{7, 0, 19} {
		c := nicely(t, nice)
		c.FollowNice(t.Context())
		wantGroupNice(t, c, nice)
	}
}

// The kernel allows unprivileged processes one change per 100 ms in total.
func TestFollowNiceWithoutPrivileges(t *testing.T) {
	processtest.Leaks(t)
	children := []*child{nicely(t, 1), nicely(t, 2), nicely(t, 3)}
	unprivileged(t, func() {
		for i, c := range children {
			c.FollowNice(t.Context())
			wantGroupNice(t, c, i+1)
		}
		children[0].FollowNice(canceled()) // too early, and its ctx has ended
	})
}

// FollowNice must not touch a pid after the child has been reaped.
func TestFollowNiceOfTheDead(t *testing.T) {
	c := nicely(t, 5)
	c.Kill()
	c.ended()
	stranger := nicely(t, 3)
	c.proc.Pid = stranger.PID()
	c.FollowNice(t.Context())
	checkGroupNice(t, stranger, 0)
}

// unprivileged runs f on a thread without capabilities, which ends after f.
func unprivileged(t *testing.T, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without unlock, the thread ends with the goroutine
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&hdr, &none[0]); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}
