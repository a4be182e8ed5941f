// Package pipes passes the messages between a relay and its host through pipes, which are faster than the socket.
package pipes

import (
	"io"
	"time"
)

// Conn is a connection to a host: a socket or pipes.
type Conn interface {
	io.ReadWriteCloser // Close interrupts reads and writes, or makes the host end them
	CloseWrite() error
	SetDeadline(t time.Time) error
}
