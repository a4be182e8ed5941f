//go:build unix

package jsonrpc

import (
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pollable puts an inherited pipe or socket f into non-blocking mode and returns a file
// for it whose reads and writes can be interrupted. Other processes may share the pipe,
// so release sets the old mode again; it also closes f. Any other f is returned
// unchanged, with a release that does nothing.
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
