//go:build unix

package relay

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// detached starts a process in a session of its own: signals to the group of the client and
// the end of its terminal do not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// becomeStderr makes f the stderr of this process, for the last words of the Go runtime.
func becomeStderr(f *os.File) error { return unix.Dup2(int(f.Fd()), 2) }

// leaveStdin puts the null device in the place of stdin, which no later file then gets.
func leaveStdin() {
	if null, err := os.Open(os.DevNull); err == nil {
		_ = unix.Dup2(int(null.Fd()), 0)
		_ = null.Close()
	}
}
