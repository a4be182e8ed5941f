package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// reap waits for the child's exit, kills what is left of its process group and of
// all that it started while the dead child still holds the ids of group and
// session, and only then collects the child.
func (p *Process) reap() (*os.ProcessState, error) {
	awaitExit(p.proc.Pid)
	close(p.exited)
	p.signal(unix.SIGKILL)
	p.hold.release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return p.proc.Wait()
}

// awaitExit returns when the child pid has exited, leaving it to be reaped. A
// pidfd waits in the poller and costs no thread; where the kernel or the
// descriptor limit denies it, waitid blocks one.
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

// Dying reports whether the child is on its way out, or out and not yet collected:
// its descriptors close before its end can be awaited.
func (p *Process) Dying() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return true
	}
	var r procReader
	s, ok := r.stat(p.proc.Pid)
	return !ok || s.dead || s.exiting
}

// exited reports whether the child has ended, or cannot be waited for at all.
func exited(idType, id, flags int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}
