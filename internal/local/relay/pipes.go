package relay

import (
	"io"
	"time"
)

// hostConn is a connection to a host: a socket or pipes.
type hostConn interface {
	io.ReadWriteCloser // Close interrupts reads and writes, or makes the host end them
	CloseWrite() error
	SetDeadline(t time.Time) error
}
