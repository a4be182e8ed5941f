//go:build unix

package relay

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// socket is a stream.
type socket struct{ *os.File }

// blocking returns c as a stream. It closes a socket, which the stream has a copy of.
func blocking(c duplex) (stream, error) {
	if p, ok := c.(*pipes); ok {
		_, _ = p.r.Fd(), p.w.Fd() // the system calls block from now on
		return p, nil
	}
	conn := c.(*net.UnixConn)
	f, err := conn.File()
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	f.Fd() // the system call blocks from now on
	return socket{f}, nil
}

// shutdown ends one direction, or both, and interrupts what is blocked in it.
func (s socket) shutdown(how int) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), how) })
	return errors.Join(err, failed)
}

func (s socket) CloseWrite() error { return s.shutdown(unix.SHUT_WR) }

// Close implements [io.Closer]; the descriptor lives until reads and writes have returned.
func (s socket) Close() error {
	_ = s.shutdown(unix.SHUT_RDWR) // fails when the host has gone
	return s.File.Close()
}
