package process

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
)

// CanLimit says whether [Limits] are kept on this system.
const CanLimit = true

// startProcess starts a process within l.
//
// Limits are set on the new program before it runs its first instruction: the
// kernel stops a traced process at the exec. That costs no program in between,
// and what it starts cannot slip through. Where tracing is forbidden they are set
// right after the start.
func startProcess(path string, argv []string, attr *os.ProcAttr, l Limits) (*os.Process, error) {
	if l == (Limits{}) {
		proc, err := os.StartProcess(path, argv, attr)
		if err == nil {
			tame(proc.Pid)
		}
		return proc, err
	}
	runtime.LockOSThread() // only the thread that started it may let it go on
	defer runtime.UnlockOSThread()
	sys := *attr.Sys
	sys.Ptrace = true
	traced := *attr
	traced.Sys = &sys
	proc, err := os.StartProcess(path, argv, &traced)
	stops := !errors.Is(err, unix.EPERM)
	if !stops {
		if proc, err = os.StartProcess(path, argv, attr); err == nil {
			untraced.Store(true)
		}
	}
	if err != nil {
		return nil, err
	}
	if stops {
		awaitStop(proc.Pid)
		defer unix.PtraceDetach(proc.Pid) // does nothing when it has been killed
	}
	return proc, limit(proc, l)
}

// untraced says that this system forbids tracing.
var untraced atomic.Bool

// awaitStop returns when the child pid has stopped or ended, and leaves the
// latter to be reaped.
func awaitStop(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// limit applies l to a new child, or ends it.
func limit(proc *os.Process, l Limits) error {
	tame(proc.Pid)
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
		if err := lower(proc.Pid, r.resource, r.soft, r.hard); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = proc.Kill()
			_, _ = proc.Wait()
			return fmt.Errorf("limit its %s: %w", r.name, err)
		}
	}
	return nil
}

// lower sets a limit of pid, no higher than it is allowed.
func lower(pid, resource int, soft, hard uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, resource, nil, &old); err != nil {
		return err
	}
	return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(soft, old.Max), Max: min(hard, old.Max)}, nil)
}

// tame keeps a child's memory out of core dumps, and offers it to the kernel
// before the host when memory runs out; pid 0 is this process. It does what it can.
func tame(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	name := "self"
	if pid != 0 {
		name = strconv.Itoa(pid)
	}
	fd, err := unix.Open("/proc/"+name+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, childScore())
	unix.Close(fd)
}

// childScore is the oom_score_adj of children: far above our own, and at most what
// the kernel takes.
var childScore = sync.OnceValue(func() []byte {
	own, _ := os.ReadFile("/proc/self/oom_score_adj")
	n, _ := strconv.Atoi(strings.TrimSpace(string(own)))
	return strconv.AppendInt(nil, int64(min(n+800, 1000)), 10)
})
