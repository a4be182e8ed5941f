//go:build unix && !linux

package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// reap reaps the child and then kills the rest of its process group. While the group has members,
// no other group can get its id. If it has none, another group could get the id before the signal;
// these systems cannot prevent that.
func (p *Process) reap() (*os.ProcessState, error) {
	state, err := p.proc.Wait()
	close(p.exited)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroupLocked(unix.SIGKILL)
	p.reaped = true
	p.contained.release()
	return state, err
}

// Dying returns false: these systems do not report that a process is exiting.
func (p *Process) Dying() bool { return false }

// Stopped returns false: these systems do not report that a process is stopped.
func (p *Process) Stopped() bool { return false }
