//go:build !unix && !windows

package relay

import (
	"os"
	"syscall"
)

func detached() *syscall.SysProcAttr { return nil }

func becomeStderr(*os.File) error { return nil }

// leaveStdin does nothing: the turn is that of the relay alone on this system.
func leaveStdin() {}
