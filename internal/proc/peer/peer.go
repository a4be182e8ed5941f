// Package peer identifies the process at the other end of a connection within this machine.
package peer

import "errors"

// Process is the process at the other end of a unix socket.
type Process struct {
	UID int
	PID int // 0 if not visible, because it is outside of this pid namespace

	handle int // pidfd on Linux, which guards against a reused pid; -1 for none
}

// Socket is the other end of a TCP connection.
type Socket struct {
	UID   int
	Inode uint32
}

// ErrNoSocket is returned by [TCP] if no process of this machine and network namespace holds the other end.
var ErrNoSocket = errors.New("no process of this machine holds the other end of the connection")
