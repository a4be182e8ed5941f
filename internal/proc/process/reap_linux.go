package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// reap waits for the child's exit, kills its process group and descendants, and then reaps it. Until then, the dead
// child keeps its group and session ids from being reused.
func (p *Process) reap() (*os.ProcessState, error) {
	awaitExit(p.proc.Pid)
	close(p.exited)
	p.signal(unix.SIGKILL)
	p.contained.release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.proc.Wait()
}

// awaitExit waits until the child pid has exited, without reaping it. A pidfd waits in the poller
// and needs no thread. On kernels without pidfds, waitid blocks a thread.
func awaitExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		exited(unix.P_PID, pid, 0)
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool { return exited(unix.P_PIDFD, int(fd), unix.WNOHANG) })
	}
	if err != nil {
		exited(unix.P_PID, pid, 0)
	}
}

// Dying reports whether the child is exiting or has exited. The kernel closes the child's
// descriptors before Exited is closed.
func (p *Process) Dying() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return true
	}
	return sweep.Dying(p.proc.Pid)
}

// Stopped reports whether the child is stopped by a signal such as SIGSTOP or by a debugger.
func (p *Process) Stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reaped && sweep.Stopped(p.proc.Pid)
}

// exited reports whether the child has exited or cannot be waited for.
func exited(idType, id, flags int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}
