package process

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// nicePause is the time between two attempts: the kernel limits the rate of changes.
const nicePause = 100 * time.Millisecond

// FollowNice copies the child's nice value, usually set by a command that begins with nice, to the
// child's session. Most kernels schedule by session (sched(7), "The autogroup feature"), where a
// nice value only counts within its session. Each child leads a session, so without FollowNice a
// child of nice 19 would get as much time as the host. FollowNice returns when the value is set or
// cannot be set, or when the child or ctx ends. For an isolated child it has no effect, because it
// does not see the child's nice value.
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

// followNice tries once. It holds mu to delay the reaping, after which the pid may belong to another process.
func (p *Process) followNice() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	child, err := unix.Getpriority(unix.PRIO_PROCESS, p.PID()) // 20 minus the nice value
	host, hostErr := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil || hostErr != nil || host == child {
		return errors.Join(err, hostErr)
	}
	behind := min(max(host-child, -20), 19)
	return os.WriteFile("/proc/"+strconv.Itoa(p.PID())+"/autogroup", strconv.AppendInt(nil, int64(behind), 10), 0)
}
