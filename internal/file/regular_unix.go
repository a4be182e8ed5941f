//go:build unix

package file

import "syscall"

const (
	nonBlocking = syscall.O_NONBLOCK
	noFollow    = syscall.O_NOFOLLOW
)
