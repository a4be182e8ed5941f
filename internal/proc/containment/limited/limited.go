// Package limited starts processes within limits, from their first instruction on.
package limited

import "time"

// Limits bound one process, and each process that it starts for itself; Processes bounds all of
// them together. Zero is no limit. A limit is never raised above that of the host.
type Limits struct {
	Processes int           // processes and threads at a time; takes a pid namespace, and Linux 6.14
	Memory    int64         // bytes of data; further allocations fail
	CPUTime   time.Duration // rounded up to seconds; then SIGXCPU, and SIGKILL a second later
	OpenFiles int           // descriptors
	FileSize  int64         // largest size in bytes of a written file; then SIGXFSZ
}

// Mark is the mark of a process, see package sweep. Zero is none.
type Mark struct {
	Limit uint64
	// Late sets it right after the start, for a child that must not be traced: the kernel gives a traced
	// program no privileges of its file, and the thread of a sandbox may trace nothing.
	Late bool
}
