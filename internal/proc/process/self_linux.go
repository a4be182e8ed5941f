package process

import (
	"math"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Conceal hides the memory, environment and descriptors of this process from other processes of its user. Otherwise the
// host's children could read its secrets in /proc/PID/environ, or trace it. Children are not concealed. Conceal does
// not keep out processes with CAP_SYS_PTRACE; children have it only with Spec.NewPrivileges. It does nothing on systems
// other than Linux.
func Conceal() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// revealing is held while this process is not concealed.
var revealing sync.Mutex

// revealed runs f while this process is not concealed: an unprivileged user cannot write the id maps of a new user
// namespace for a child that shares the memory of a concealed process.
func revealed(f func()) {
	revealing.Lock()
	defer revealing.Unlock()
	if was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err == nil && was == 0 {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		defer Conceal()
	}
	f()
}

// CloseOnExecAll sets close-on-exec on all open descriptors above stderr, so that children do not inherit what this
// process has inherited. Call it once, at the start of the program.
func CloseOnExecAll() error {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	// Kernels before 5.11, and sandboxes that filter system calls.
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
