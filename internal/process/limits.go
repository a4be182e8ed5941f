package process

import (
	"time"

	"github.com/exthost/exthost/internal/sandbox"
)

// Limits bound one process. Each process that it starts has the same limits for itself.
// Zero is no limit. A limit is never raised above that of the host.
type Limits struct {
	Memory    int64         // bytes of data; further allocations fail
	CPUTime   time.Duration // rounded up to seconds; then SIGXCPU, and SIGKILL a second later
	OpenFiles int           // descriptors
	FileSize  int64         // largest size in bytes of a written file; then SIGXFSZ
}

// terms are what an init is told about its child.
type terms struct {
	Limits        Limits
	NewPrivileges bool
	Sandbox       *sandbox.Policy
}
