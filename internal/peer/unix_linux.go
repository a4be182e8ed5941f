package peer

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Unix returns the process at the other end of c: that which connected, whoever has the
// descriptor now, or that which listens. The caller must call Close.
func Unix(c *net.UnixConn) (p Process, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		p = Process{UID: int(cred.Uid), PID: int(cred.Pid), handle: -1}
		handle, failed := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		switch {
		case failed == nil:
			p.handle = handle
		case errors.Is(failed, unix.ENOPROTOOPT): // before Linux 6.5
		default:
			p.handle = hasEnded
		}
	})
	return p, errors.Join(err, controlErr)
}

// hasEnded is the handle of a process that had ended before it was asked for.
const hasEnded = -2

// Alive reports whether the process still runs, so that what was read of its pid before is
// about it. Before Linux 6.5 it is always true.
func (p Process) Alive() bool {
	if p.handle < 0 {
		return p.handle != hasEnded
	}
	ended := []unix.PollFd{{Fd: int32(p.handle), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ended, 0)
		if !errors.Is(err, unix.EINTR) {
			return n == 0 && err == nil
		}
	}
}

// Close releases p.
func (p Process) Close() {
	if p.handle >= 0 {
		_ = unix.Close(p.handle)
	}
}
