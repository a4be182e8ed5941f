package process

import "time"

// Limits bound one process, and by itself each process that it starts. Zero is no
// limit; none is raised above what the host is allowed itself.
type Limits struct {
	Memory    int64         // bytes of data it may allocate; more of it fails
	CPUTime   time.Duration // rounded up to seconds; SIGXCPU, and SIGKILL a second after
	OpenFiles int           // descriptors
	FileSize  int64         // bytes of the largest file it may write; SIGXFSZ
}
