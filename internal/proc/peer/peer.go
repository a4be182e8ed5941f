// Package peer identifies the process at the other end of a connection within this machine.
package peer

import "errors"

// Process is the process that connected to a unix socket, or that listens on it.
type Process struct {
	UID int
	PID int // 0 if it is not visible from here: it is in a pid namespace that is not below this one

	handle int // of the process on Linux, so that another one with its pid is not taken for it; -1 for none
}

// Socket is the other end of a TCP connection.
type Socket struct {
	UID   int
	Inode uint32
}

// ErrNoSocket is the error of [TCP] when no process of this machine and this network
// namespace has the other end open.
var ErrNoSocket = errors.New("no process of this machine holds the other end of the connection")
