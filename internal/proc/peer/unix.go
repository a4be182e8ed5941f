//go:build linux || darwin

package peer

import (
	"errors"
	"net"
)

// Unix returns the process at the other end of c: the one that connected, even if it has passed the descriptor on, or
// the one that listens. The caller must call Close.
func Unix(c *net.UnixConn) (Process, error) {
	p := Process{UID: -1, handle: -1}
	raw, err := c.SyscallConn()
	if err != nil {
		return p, err
	}
	controlErr := raw.Control(func(fd uintptr) { err = p.identify(int(fd)) })
	return p, errors.Join(err, controlErr)
}
