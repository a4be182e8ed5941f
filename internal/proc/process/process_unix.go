//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	term = unix.SIGTERM
	kill = unix.SIGKILL
)

// sysProcAttr gives each child its own session: without a controlling terminal, so that Ctrl-C does not reach the
// child, and with one process group to kill.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// signal sends sig to the child's process group, unless the child has been reaped.
func (p *Process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.signalGroupLocked(sig)
	}
}

// signalGroupLocked ignores the error, which means that the group is empty.
func (p *Process) signalGroupLocked(sig unix.Signal) { _ = unix.Kill(-p.proc.Pid, sig) }

// readNow reads what is available in f without blocking.
func readNow(f *os.File, buf []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	ctlErr := raw.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), buf)
		return true
	})
	return max(n, 0), errors.Join(ctlErr, err)
}

func isBusy(err error) bool { return errors.Is(err, unix.ETXTBSY) }

// endedBy returns the signal that ended the process; "" if none did.
func endedBy(state *os.ProcessState) (name string, core bool) {
	status, _ := state.Sys().(syscall.WaitStatus)
	return signalOf(status)
}

func signalOf(status syscall.WaitStatus) (name string, core bool) {
	if !status.Signaled() {
		return "", false
	}
	name = unix.SignalName(status.Signal())
	if name == "" { // real-time signals have no name
		name = fmt.Sprintf("signal %d", int(status.Signal()))
	}
	return name, status.CoreDump()
}

// executable returns nil if this process may execute file.
func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return unix.EISDIR
	}
	return unix.Access(file, unix.X_OK)
}

func withExtension(file string) string { return file }
