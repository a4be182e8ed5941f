package limited

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/exthost/exthost/internal/proc/containment/sweep"
)

// Enforced reports whether [Limits] have an effect on this system.
const Enforced = true

// Start starts a process with limits l and mark m. marked reports whether m was set before the first instruction.
//
// The process is started traced: the kernel stops it at the exec, where Start sets limits and mark. So nothing that the
// program starts can escape them, and no helper program is needed. Where tracing is forbidden, they are set right after
// the start.
func Start(path string, argv []string, attr *os.ProcAttr, l Limits, m Mark) (proc *os.Process, marked bool, err error) {
	if l == (Limits{}) && (m.Limit == 0 || m.Late) {
		proc, err = os.StartProcess(path, argv, attr)
		if err == nil {
			_ = onOtherThread(func() error { SetDefaults(proc.Pid); return SetMark(proc.Pid, m.Limit) })
		}
		return proc, false, err
	}
	runtime.LockOSThread() // only the tracing thread may continue the process
	defer runtime.UnlockOSThread()
	sys := *attr.Sys
	sys.Ptrace = true
	traced := *attr
	traced.Sys = &sys
	proc, err = os.StartProcess(path, argv, &traced)
	stops := !errors.Is(err, unix.EPERM)
	if !stops {
		if proc, err = os.StartProcess(path, argv, attr); err == nil {
			ptraceForbidden.Store(true)
		}
	}
	if err != nil {
		return nil, false, err
	}
	if stops {
		awaitStop(proc.Pid)
		defer unix.PtraceDetach(proc.Pid) // does nothing after a kill
	}
	err = onOtherThread(func() error {
		marked = SetMark(proc.Pid, m.Limit) == nil && stops
		return limit(proc, l)
	})
	return proc, marked, err
}

// SetMark marks the process pid, 0 being this process. It does nothing if limit is 0.
func SetMark(pid int, limit uint64) error {
	if limit == 0 {
		return nil
	}
	return unix.Prlimit(pid, sweep.ResourceLocks, &unix.Rlimit{Cur: limit, Max: limit}, nil)
}

// onOtherThread runs f on another thread: the thread of a sandboxed child may not write to /proc, nor limit other
// processes.
func onOtherThread(f func() error) error {
	done := make(chan error)
	go func() { done <- f() }()
	return <-done
}

// ptraceForbidden is set once the system has refused to trace a child.
var ptraceForbidden atomic.Bool

// Late reports whether the system has refused to trace a child, so that limits are set only after the start.
func Late() bool { return ptraceForbidden.Load() }

// awaitStop waits until the child pid has stopped or exited. It does not reap the child.
func awaitStop(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// limit applies l to a new child. It kills the child on failure.
func limit(proc *os.Process, l Limits) error {
	SetDefaults(proc.Pid)
	seconds := uint64((l.CPUTime + time.Second - 1) / time.Second)
	for _, r := range []struct {
		name       string
		resource   int
		soft, hard uint64
	}{
		{"memory", unix.RLIMIT_DATA, uint64(l.Memory), uint64(l.Memory)},
		{"cpu_time", unix.RLIMIT_CPU, seconds, seconds + 1},
		{"open_files", unix.RLIMIT_NOFILE, uint64(l.OpenFiles), uint64(l.OpenFiles)},
		{"file_size", unix.RLIMIT_FSIZE, uint64(l.FileSize), uint64(l.FileSize)},
	} {
		if r.soft == 0 {
			continue
		}
		if err := setLimit(proc.Pid, r.resource, r.soft, r.hard); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = proc.Kill()
			_, _ = proc.Wait()
			return fmt.Errorf("limit its %s: %w", r.name, err)
		}
	}
	return nil
}

// setLimit sets a limit of pid, capped at the current hard limit.
func setLimit(pid, resource int, soft, hard uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		return err
	}
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, old.Max), Max: min(hard, old.Max)}, nil)
}

// SetDefaults disables core dumps of pid, and makes the OOM killer choose pid before the host. For
// pid 0 it does so for this process. Errors are ignored.
func SetDefaults(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	fd, err := unix.Open("/proc/"+name+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, childOOMScore())
	unix.Close(fd)
}

// childOOMScore is the oom_score_adj of children: the host's plus 800, at most 1000.
var childOOMScore = sync.OnceValue(func() []byte {
	own, _ := os.ReadFile("/proc/self/oom_score_adj")
	n, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	return strconv.AppendInt(nil, int64(min(n+800, 1000)), 10)
})
