package process

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TailSince leaves out older lines.
func TestTailSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines tail
		lines.add([]byte("at the start"))
		time.Sleep(time.Minute)
		lines.add([]byte("at the end"))
		if diff := cmp.Diff([]string{"at the end"}, lines.lines(time.Now().Add(-time.Second))); diff != "" {
			t.Error(diff)
		}
		if all := lines.lines(time.Time{}); len(all) != 2 {
			t.Errorf("all lines: %q", all)
		}
	})
}

// The exit status of a launcher whose program was killed names the signal.
func TestExitOfALauncher(t *testing.T) {
	for code, want := range map[int]string{
		3:   "exit status 3",
		137: "exit status 137 (of a process that SIGKILL ended)",
		255: "exit status 255",
	} {
		if got := (Exit{Code: code}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
