//go:build !unix

package pipes

import (
	"io"
	"net"
	"time"
)

// Send returns conn, because this system cannot send pipes.
func Send(conn *net.UnixConn) (Conn, error) { return conn, nil }

// Block does nothing.
func Block(Conn) {}

// Take returns conn.
func Take(conn net.Conn, _ time.Duration) (io.ReadCloser, io.WriteCloser, error) {
	return conn, conn, nil
}
