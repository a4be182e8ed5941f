package lineage

import (
	"os"

	"golang.org/x/sys/unix"
)

// Of tells whether the process pid descends from this process, by its ancestors. There is no mark on this system: a
// process that has lost its ancestors is [Unrelated].
func Of(pid int) Relation {
	for at := pid; at > 1; {
		info, err := unix.SysctlKinfoProc("kern.proc.pid", at)
		if err != nil {
			return Unknown
		}
		if at = int(info.Eproc.Ppid); at == os.Getpid() {
			return Descendant
		}
	}
	return Unrelated
}

// OfSocket returns [Unrelated]: nothing is known about sockets on this system.
func OfSocket(uint32, int) Relation { return Unrelated }

// Nested returns false: there are no pid namespaces on this system.
func Nested(int) (nested, visible bool) { return false, true }

// Hiding returns "": no process is hidden on this system.
func Hiding() string { return "" }
