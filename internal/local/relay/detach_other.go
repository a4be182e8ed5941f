//go:build !unix && !windows

package relay

import (
	"os"
	"syscall"
)

func detached() *syscall.SysProcAttr { return nil }

func becomeStderr(*os.File) error { return nil }

// leaveStdin does nothing: on this system the host does not inherit the turn.
func leaveStdin() {}
