package process

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/process/processtest"
)

// A child reads nothing of a concealed host of an ordinary user; the host still sees its own
// descriptors and those of its children. [TestIsolatedUnprivileged] runs this test too, and
// the tests after it in a concealed process.
func TestConceal(t *testing.T) {
	processtest.Leaks(t)
	const look = `cat /proc/$PPID/environ /proc/$PPID/maps >/dev/null; ls -l /proc/$PPID/fd >/dev/null; true`
	output := func() string {
		p, err := Start(t.Context(), Spec{Path: "/bin/sh", Args: []string{"-c", look}})
		if err != nil {
			t.Fatal(err)
		}
		p.Stdout.Close()
		<-p.Done()
		return strings.Join(p.Tail(), "\n")
	}
	if said := output(); said != "" {
		t.Fatalf("before, a child cannot look: %s", said)
	}
	Conceal()
	if os.Geteuid() == 0 { // and its children may look
		t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) })
		return
	}
	said := output()
	for _, name := range []string{"environ", "maps", "fd"} {
		if !strings.Contains(said, name) {
			t.Errorf("a child reads %s of its host", name)
		}
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err != nil || len(fds) < 3 {
		t.Errorf("the host sees %d descriptors of its own: %v", len(fds), err)
	}
	if _, err := os.ReadFile("/proc/self/statm"); err != nil {
		t.Error(err)
	}
}
