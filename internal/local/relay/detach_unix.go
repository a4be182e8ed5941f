//go:build unix

package relay

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// detached returns attributes that start a process in its own session. Signals to the client's process group, and the
// end of the client's terminal, then do not reach the process.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// becomeStderr makes f this process's stderr, so that Go runtime crashes are logged.
func becomeStderr(f *os.File) error { return unix.Dup2(int(f.Fd()), 2) }

// leaveStdin replaces stdin by the null device, which ends this process's turn.
func leaveStdin() {
	if null, err := os.Open(os.DevNull); err == nil {
		_ = unix.Dup2(int(null.Fd()), 0)
		_ = null.Close()
	}
}
