// Package limited starts processes within resource limits that hold from their first instruction on.
package limited

import "time"

// Limits are the resource limits of a child. All but Processes apply to each process by itself. Zero means no limit. A
// limit is never raised above the host's.
type Limits struct {
	Processes int           // at a time, with all descendants and threads; needs a pid namespace and Linux 6.14
	Memory    int64         // bytes of data; further allocations fail
	CPUTime   time.Duration // rounded up to seconds; SIGXCPU at the limit, SIGKILL one second later
	OpenFiles int           // open descriptors
	FileSize  int64         // bytes of one written file; SIGXFSZ beyond
}

// Mark is a child's mark; see package sweep. The zero value means no mark.
type Mark struct {
	Limit uint64
	// Late sets the mark right after the start instead of before the first instruction. It is for
	// children that must not be traced: the kernel does not grant file privileges to a traced
	// program, and the thread of a sandbox may not trace.
	Late bool
}
