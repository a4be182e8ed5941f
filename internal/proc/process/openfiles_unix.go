//go:build unix

package process

import "golang.org/x/sys/unix"

// OpenFiles returns how many files this process may have open; 0 when that is unknown. The Go
// runtime has raised the soft limit to the hard one, and gives children the soft limit that
// this process was started with.
func OpenFiles() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return uint64(limit.Cur) // the type differs between systems
}
