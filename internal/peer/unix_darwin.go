package peer

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Unix returns the process at the other end of c: that which connected, or that which
// listens. The caller must call Close.
func Unix(c *net.UnixConn) (p Process, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Xucred
		if cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED); err != nil {
			return
		}
		p.UID = int(cred.Uid)
		p.PID, err = unix.GetsockoptInt(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	})
	return p, errors.Join(err, controlErr)
}

// Alive is always true on this system.
func (Process) Alive() bool { return true }

// Close does nothing on this system.
func (Process) Close() {}
