package ndjson

import (
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	widePipe = 1 << 20 // bytes
	maxWide  = 16      // pipes of this process that are wide at the same time
)

var wide atomic.Int32

// pipe is one end of a pipe that may carry large frames. With the usual 64 KiB the ends of
// the pipe take turns for each piece of a frame. Linux counts the pages of all pipes of a
// user and gives few to the new pipes of a user who has many, so few are made wide.
type pipe struct {
	end     any // an *os.File, if it is a pipe
	once    sync.Once
	widened atomic.Bool
}

// widen makes the pipe wide, once, and reports whether it did now.
func (p *pipe) widen() (now bool) {
	f, ok := p.end.(syscall.Conn)
	if !ok {
		return false
	}
	p.once.Do(func() {
		raw, err := f.SyscallConn()
		if err != nil {
			return
		}
		p.widened.Store(true) // before the pipe can be closed
		if wide.Add(1) <= maxWide {
			_ = raw.Control(func(fd uintptr) { // fails on a closed file alone
				_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, widePipe)
				now = err == nil
			})
		}
		if !now {
			p.close()
		}
	})
	return now
}

// close counts the pipe as closed.
func (p *pipe) close() {
	if p.widened.CompareAndSwap(true, false) {
		wide.Add(-1)
	}
}
