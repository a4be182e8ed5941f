//go:build !unix

package relay

import (
	"io"
	"net"
)

// blocking returns c, a socket whose Close interrupts reads and writes.
func blocking(c duplex) (stream, error) { return c.(stream), nil }

// sendPipes returns conn: pipes cannot be sent.
func sendPipes(conn *net.UnixConn) (duplex, error) { return conn, nil }

func takePipes(conn net.Conn) (io.ReadCloser, io.WriteCloser, error) { return conn, conn, nil }
