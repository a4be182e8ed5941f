package peer

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/file"
)

// identify reads the peer's credentials from a socket.
func (p *Process) identify(fd int) error {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	p.UID, p.PID = int(cred.Uid), int(cred.Pid)
	handle, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		p.handle = handle
	case file.Exhausted(err):
		return err
	case !errors.Is(err, unix.ENOPROTOOPT): // ENOPROTOOPT: Linux before 6.5
		p.handle = hasEnded
	}
	return nil
}

// hasEnded is the handle of a process that had ended before its pidfd was opened.
const hasEnded = -2

// Alive reports whether the process still runs. If it does, what was read about its pid before is
// about this process. Before Linux 6.5, Alive always returns true.
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

// Close releases the process handle.
func (p Process) Close() {
	if p.handle >= 0 {
		_ = unix.Close(p.handle)
	}
}
