package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// reap waits for the exit of the child, kills its process group and its descendants, and
// then collects the child. Until it is collected, the dead child keeps the ids of its
// group and session from reuse.
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

// awaitExit returns when the child pid has exited, without reaping it. A pidfd waits in the
// poller and costs no thread. If the kernel or the descriptor limit denies a pidfd, waitid
// blocks a thread.
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

// Dying reports whether the child is exiting or has exited. The descriptors of a child are
// closed before Exited.
func (p *Process) Dying() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return true
	}
	return sweep.Dying(p.proc.Pid)
}

// Stopped reports whether a signal such as SIGSTOP, or a debugger, has stopped the child.
func (p *Process) Stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.reaped && sweep.Stopped(p.proc.Pid)
}

// exited reports whether the child has exited, or cannot be waited for.
func exited(idType, id, flags int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}
