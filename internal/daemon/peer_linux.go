package daemon

import (
	"net"

	"golang.org/x/sys/unix"
)

// peer returns the user id of the process at the other end: of that which connected, or of
// that which listens.
func peer(c *net.UnixConn, _ int) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid = -1
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid = int(cred.Uid)
		}
	})
	if err == nil {
		err = controlErr
	}
	return uid, err
}
