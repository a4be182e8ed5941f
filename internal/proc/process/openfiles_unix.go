//go:build unix

package process

import "golang.org/x/sys/unix"

// OpenFiles returns the limit of open files of this process; 0 if unknown. The Go runtime raises the soft limit to the
// hard one, and gives children the original soft limit.
func OpenFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) // the type differs between systems
}
