package test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// A reload while the host has no free file descriptor changes nothing: running extensions go on, the error gives the
// reason, and the host retries by itself once it can.
func TestReloadWithoutDescriptors(t *testing.T) {
	processtest.Leaks(t)
	f := hosttest.NewFolder(t).Add("a", hosttest.Child("sdk", "")).Add("b", hosttest.Child("sdk", ""))
	h := f.Open(exthost.Options{})
	before := []int{hosttest.PidOf(t, h, "a"), hosttest.PidOf(t, h, "b")}
	restore := withoutDescriptors(t)
	_, err := h.Admin().Reload(hosttest.Deadline(t))
	_, called := h.Call(hosttest.Deadline(t), "ext_b_greet", map[string]any{"name": "x"})
	restore()
	if protocol.KindOf(err) != protocol.Overloaded {
		t.Errorf("the reload ended with %v", err)
	}
	if called != nil {
		t.Errorf("a call meanwhile: %v", called)
	}
	for i, id := range []string{"a", "b"} {
		if pid := hosttest.PidOf(t, h, id); pid != before[i] {
			t.Errorf("%s had pid %d and has %d", id, before[i], pid)
		}
	}
	f.Add("c", hosttest.Child("sdk", "")) // found without another request
	hosttest.Eventually(t, "c is found", func() bool { _, ok := h.Tools().Lookup("ext_c_greet"); return ok })
}

// withoutDescriptors makes every open of this process fail until restore is called.
func withoutDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	set := true
	restore = func() {
		if set {
			set = false
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(restore)
	if f, err := os.Open(os.DevNull); err == nil {
		f.Close()
		t.Fatal("a file can be opened")
	}
	return restore
}
