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
