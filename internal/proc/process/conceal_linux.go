package process

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Conceal hides the memory, environment and descriptors of this process from other
// processes of its user: the children of a host could otherwise read its secrets in
// /proc/PID/environ, or trace it. Processes that it starts are not concealed. A process with
// the capability CAP_SYS_PTRACE is not kept out; children have it with Spec.NewPrivileges
// alone. On other systems than Linux Conceal does nothing.
func Conceal() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// revealing holds the lock while this process is not concealed.
var revealing sync.Mutex

// revealed runs f while this process is not concealed: an ordinary user cannot write the id
// maps of a new user namespace for a child whose memory is that of a concealed process.
func revealed(f func()) {
	revealing.Lock()
	defer revealing.Unlock()
	if was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err == nil && was == 0 {
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
		defer Conceal()
	}
	f()
}
