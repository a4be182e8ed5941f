//go:build unix

package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pipes is a connection with one pipe per direction. Sockets are slower: when the peer has read the written data, a
// socket also wakes the thread of the writer that waits to read.
type pipes struct{ r, w *os.File }

func (p *pipes) Read(b []byte) (int, error)  { return p.r.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *pipes) CloseWrite() error           { return p.w.Close() }

// Close implements [io.Closer]. After blockPipes, a pending read ends only when the host closes its pipe ends, as the
// host does when the client leaves.
func (p *pipes) Close() error { return errors.Join(p.w.Close(), p.r.Close()) }

func (p *pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.r.SetReadDeadline(t), p.w.SetWriteDeadline(t))
}

// blockPipes makes each read and write block a thread. A thread wakes up sooner than a goroutine in the runtime's
// poller.
func blockPipes(c hostConn) {
	if p, ok := c.(*pipes); ok {
		_, _ = p.r.Fd(), p.w.Fd()
	}
}

// sendPipes replaces conn by pipes: it creates them, sends two of the four ends to the host, and closes conn. If the
// host is gone, the system closes the sent ends, and reads return EOF.
func sendPipes(conn *net.UnixConn) (hostConn, error) {
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

// takePipes receives the pipe ends that a relay sends on conn, and closes conn. It returns nil if the relay is gone or
// sends nothing within the given time.
func takePipes(conn net.Conn, within time.Duration) (io.ReadCloser, io.WriteCloser, error) {
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, nil, err
	}
	control := make([]byte, unix.CmsgSpace(2*4)) // two descriptors; the system drops any others
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	var ends []*os.File
	for _, m := range messages {
		fds, _ := unix.ParseUnixRights(&m)
		for _, fd := range fds {
			err = errors.Join(err, unix.SetNonblock(fd, true)) // lets Close interrupt reads
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
