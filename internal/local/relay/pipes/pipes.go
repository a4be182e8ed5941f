// Package pipes has the messages between a relay and its host go over pipes, which the relay sends over
// their socket.
package pipes

import (
	"io"
	"time"
)

// Conn is a connection to a host: a socket, or pipes.
type Conn interface {
	io.ReadWriteCloser // Close interrupts reads and writes, or has the host end them
	CloseWrite() error
	SetDeadline(t time.Time) error
}
