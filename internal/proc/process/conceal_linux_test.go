package process

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/limited"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// A child can neither read nor trace a concealed host; the host still sees its own descriptors and its children's.
// Root's children can read nothing in either case. [TestIsolatedUnprivileged] runs this test and the ones after it in a
// concealed process.
func TestConceal(t *testing.T) {
	processtest.Leaks(t)
	look := func(mod func(*Spec)) string { return start(t, "spy; eof", mod).line() }
	const nothing = "saw []"
	everything := "saw [auxv environ exe fd/0 maps mem pidfd_getfd process_vm_readv trace]"
	root := os.Geteuid() == 0
	if root {
		everything = "saw [auxv environ exe fd/0 maps mem pidfd_getfd process_vm_readv stack trace]"
	}
	free := func(s *Spec) { s.NewPrivileges = true }
	if got := look(free); got != everything {
		t.Fatalf("before, a child %s, want %s", got, everything)
	}
	if got := look(nil); root && got != nothing {
		t.Errorf("a child of root %s", got)
	}
	Conceal()
	t.Cleanup(func() {
		if root {
			_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		}
	})
	for name, mod := range map[string]func(*Spec){
		"plain": nil, "limited": func(s *Spec) { s.Limits = limited.Limits{OpenFiles: 64} }, "isolated": isolated(t),
	} {
		if got := look(mod); got != nothing {
			t.Errorf("a %s child %s", name, got)
		}
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err != nil || len(fds) < 3 {
		t.Errorf("the host sees %d descriptors of its own: %v", len(fds), err)
	}
	if _, err := os.ReadFile("/proc/self/statm"); err != nil {
		t.Error(err)
	}
}
