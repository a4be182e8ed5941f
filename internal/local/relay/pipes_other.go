//go:build !unix

package relay

import (
	"io"
	"net"
	"time"
)

// sendPipes returns conn, because this system cannot send pipes.
func sendPipes(conn *net.UnixConn) (hostConn, error) { return conn, nil }

// blockPipes does nothing.
func blockPipes(hostConn) {}

// takePipes returns conn.
func takePipes(conn net.Conn, _ time.Duration) (io.ReadCloser, io.WriteCloser, error) {
	return conn, conn, nil
}
