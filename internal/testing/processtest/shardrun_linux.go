package processtest

import (
	"os/exec"
	"syscall"
)

// endWithParent kills the process of cmd when the thread that started it ends, also if that happens because this
// process is killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
