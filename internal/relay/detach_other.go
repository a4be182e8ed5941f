//go:build !unix && !windows

package relay

import (
	"os"
	"syscall"
)

func detached() *syscall.SysProcAttr { return nil }

func becomeStderr(*os.File) error { return nil }
