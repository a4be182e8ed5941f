//go:build unix

package ndjson

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// descriptor is a file or a socket.
type descriptor interface {
	syscall.Conn
	SetWriteDeadline(t time.Time) error
}

func newSink(w io.WriteCloser) sink {
	f, ok := w.(descriptor)
	if !ok || f.SetWriteDeadline(time.Time{}) != nil { // a deadline works only on a file that can be polled
		return streamSink{w}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return streamSink{w}
	}
	s := &fileSink{f: f, raw: raw}
	s.once = func(fd uintptr) bool { s.step(fd); return true }
	s.wait = s.step
	return s
}

// fileSink writes to a non-blocking file, such as a pipe made by os.Pipe, or to a socket. It is not safe for
// concurrent use.
type fileSink struct {
	f          descriptor
	raw        syscall.RawConn
	once, wait func(fd uintptr) bool // bound methods, made once to save an allocation per write
	b          []byte
	n          int
	err        error
}

// step writes once. It returns false if the file has no room.
func (s *fileSink) step(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), s.b)
		switch err {
		case nil:
			s.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		default:
			s.err = err
		}
		return true
	}
}

func (s *fileSink) run(b []byte, step func(fd uintptr) bool) (int, error) {
	s.b, s.n, s.err = b, 0, nil
	err := s.raw.Write(step)
	s.b = nil
	if err != nil {
		return s.n, err
	}
	return s.n, s.err
}

func (s *fileSink) try(b []byte) (int, error) { return s.run(b, s.once) }

func (s *fileSink) write(b []byte, timeout time.Duration) (int, error) {
	if err := s.f.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	n, err := s.run(b, s.wait)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, ErrStalled
	}
	_ = s.f.SetWriteDeadline(time.Time{}) // else the next try would fail
	return n, err
}

// Pollable puts an inherited pipe or socket f into non-blocking mode and returns a file for it whose reads and writes
// can be interrupted. Other processes may share the pipe, so release restores the old mode; it also closes f. Any
// other f is returned unchanged, with a release that does nothing.
func Pollable[F io.Closer](f F) (p F, release func()) {
	release = func() {}
	file, ok := any(f).(*os.File)
	if !ok || file.SetDeadline(time.Time{}) == nil {
		return f, release
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return f, release
	}
	inherited := int(file.Fd())
	fd, err := unix.FcntlInt(uintptr(inherited), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return f, release
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return f, release
	}
	p, _ = any(os.NewFile(uintptr(fd), file.Name())).(F)
	return p, func() {
		_ = syscall.SetNonblock(inherited, false)
		_ = file.Close()
	}
}
