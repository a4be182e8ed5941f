package lineage

import (
	"os"

	"golang.org/x/sys/unix"
)

// Of tells whether this process is an ancestor of the process pid. A process that has lost
// its ancestors is unrelated here: there is no mark on this system.
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

// OfSocket knows nothing on this system.
func OfSocket(uint32, int) Relation { return Unrelated }

// Nested is false: there are no pid namespaces on this system.
func Nested(int) bool { return false }

// Hiding is "": no process is hidden on this system.
func Hiding() string { return "" }
