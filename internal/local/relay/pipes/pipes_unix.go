//go:build unix

package pipes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pipes are a connection over a pipe for each direction. A socket takes longer: it also wakes
// the thread that waits to read from it when the other side has read what was written.
type pipes struct{ r, w *os.File }

func (p *pipes) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *pipes) CloseWrite() error           { return p.w.Close() }

// Close implements [io.Closer]. Once the pipes block, a read ends when the host has closed its
// ends, as it does at the end of the client.
func (p *pipes) Close() error { return errors.Join(p.w.Close(), p.r.Close()) }

func (p *pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.r.SetReadDeadline(t), p.w.SetWriteDeadline(t))
}

// Block has reads and writes of pipes block a thread each: they wake sooner than those that
// the poller of the Go runtime wakes.
func Block(c Conn) {
	if p, ok := c.(*pipes); ok {
		_, _ = p.r.Fd(), p.w.Fd()
	}
}

// Send has the messages of conn, which it closes, go over pipes: it sends the ends of
// the host to it. A host that has ended gets none; its ends are closed then as always.
func Send(conn *net.UnixConn) (Conn, error) {
	defer conn.Close()
	var p pipes
	hostR, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer hostR.Close()
	p.w = w
	r, hostW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	defer hostW.Close()
	p.r = r
	_, _, _ = conn.WriteMsgUnix([]byte{'\n'}, unix.UnixRights(int(hostR.Fd()), int(hostW.Fd())), nil)
	return &p, nil
}

// Take returns the ends of the pipes that a relay sends on conn, which it closes; nil if the relay has
// gone, or sends none for so long.
func Take(conn net.Conn, within time.Duration) (io.ReadCloser, io.WriteCloser, error) {
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, nil, err
	}
	control := make([]byte, unix.CmsgSpace(2*4)) // two descriptors; the system drops further ones
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	var ends []*os.File
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			err = errors.Join(err, unix.SetNonblock(fd, true)) // so that reads can be interrupted
			ends = append(ends, os.NewFile(uintptr(fd), "pipe of a relay"))
		}
	}
	if err == nil && len(ends) == 2 {
		return ends[0], ends[1], nil
	}
	for _, f := range ends {
		_ = f.Close()
	}
	return nil, nil, errors.Join(err, fmt.Errorf("it sends %d pipes and not 2", len(ends)))
}
