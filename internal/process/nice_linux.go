package process

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// nicePause is how long the kernel may ask us to wait between two changes.
const nicePause = 100 * time.Millisecond

// FollowNice sets the child's session as far behind ours as the child itself is by
// now, most often by a command that begins with nice. A nice value counts only among
// the processes of one session where the kernel groups them by session, as most do
// (sched(7), "The autogroup feature"), and each child leads one: without this, a child
// of nice 19 would be given as much time as the host. It returns when that is done,
// when it cannot be, and with the end of the child or of ctx. What an isolated child
// says of itself is out of sight.
func (p *Process) FollowNice(ctx context.Context) {
	for errors.Is(p.followNice(), unix.EAGAIN) {
		select {
		case <-time.After(nicePause):
		case <-p.exited:
			return
		case <-ctx.Done():
			return
		}
	}
}

// followNice tries once. It holds up the reaping meanwhile, after which the pid may
// be that of a stranger.
func (p *Process) followNice() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	theirs, err := unix.Getpriority(unix.PRIO_PROCESS, p.PID()) // 20 minus the nice value, as the kernel returns it
	ours, ownErr := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil || ownErr != nil || ours == theirs {
		return errors.Join(err, ownErr)
	}
	behind := min(max(ours-theirs, -20), 19)
	return os.WriteFile("/proc/"+strconv.Itoa(p.PID())+"/autogroup", strconv.AppendInt(nil, int64(behind), 10), 0)
}
