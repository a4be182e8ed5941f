//go:build unix

package processtest

import (
	"os/exec"
	"syscall"
)

func newSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
