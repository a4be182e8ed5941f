//go:build unix && !linux

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// reap collects the child, then kills what is left of its process group. The
// group's id stays taken as long as the group has members; between an empty
// group and the signal a stranger might get it, which this system cannot prevent.
func (p *Process) reap() (*os.ProcessState, error) {
	state, err := p.proc.Wait()
	close(p.exited)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroupLocked(unix.SIGKILL)
	p.reaped = true
	p.hold.release()
	return state, err
}

// Dying reports whether the child is seen to be on its way out, which nothing tells here.
func (p *Process) Dying() bool { return false }
