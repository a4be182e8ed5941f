//go:build unix

package jsonrpc

import (
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pollable returns the file f such that its reads and writes can be interrupted,
// where that takes putting an inherited pipe or socket into non-blocking mode.
// Release puts it back, as other processes may share it, and closes f. Anything
// else is returned as it is.
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
