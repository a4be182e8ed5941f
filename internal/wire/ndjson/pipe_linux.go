package ndjson

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// inPipe returns the number of bytes in the pipe f, or -1 if f is not a pipe.
func inPipe(f any) int {
	n := -1
	control(f, func(fd uintptr) {
		if in, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			n = in
		}
	})
	return n
}

// control calls op with the descriptor of f, unless f has none or is closed.
func control(f any, op func(fd uintptr)) {
	if f, ok := f.(syscall.Conn); ok {
		if raw, err := f.SyscallConn(); err == nil {
			_ = raw.Control(op) // fails if the file is closed
		}
	}
}

// A large pipe is four times as large as usual: a frame of a megabyte passes it in a fourth of the steps, each of which
// waits for the other process. Larger ones let a connection with large frames take the processors from its neighbours.
// For the same reason only writers enlarge their pipes. All pipes of a user share pipe-user-pages-soft, 64 MiB for
// those without CAP_SYS_RESOURCE, beyond which new pipes of the user's other programs are small; maxLarge of them take
// a fourth.
const (
	largePipe = 256 << 10
	maxLarge  = 64
)

var largePipes atomic.Int32

// pipe is the state of a pipe that may be enlarged.
type pipe struct {
	mu    sync.Mutex
	asked bool // or closed
	large bool
}

// enlarge makes f, a pipe, a large one at its first call.
func (p *pipe) enlarge(f any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		return
	}
	p.asked = true
	if largePipes.Add(1) <= maxLarge {
		control(f, func(fd uintptr) {
			_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, largePipe)
			p.large = err == nil
		})
	}
	if !p.large {
		largePipes.Add(-1)
	}
}

// close is called when the file is closed.
func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.large {
		largePipes.Add(-1)
	}
	p.asked, p.large = true, false
}
