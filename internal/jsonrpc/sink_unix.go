//go:build unix

package jsonrpc

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

func newSink(w io.WriteCloser) sink {
	f, ok := w.(*os.File)
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

// fileSink writes to a file that does not block, such as a pipe made by os.Pipe.
// One goroutine at a time uses it.
type fileSink struct {
	f          *os.File
	raw        syscall.RawConn
	once, wait func(fd uintptr) bool // bound methods, made once to save an allocation per write
	b          []byte
	n          int
	err        error
}

// step writes once. It reports false when the file has no room.
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
	_ = s.f.SetWriteDeadline(time.Time{}) // or the next try would fail; on a closed file the next write fails
	return n, err
}
