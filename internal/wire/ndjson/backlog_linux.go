package ndjson

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// inPipe returns the number of bytes in the pipe f, or -1 if f is not a pipe.
func inPipe(f any) int {
	n := -1
	if f, ok := f.(syscall.Conn); ok {
		if raw, err := f.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { // n stays -1 if the file is closed
				if in, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
					n = in
				}
			})
		}
	}
	return n
}
