package confine

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// KeptCapabilities are the capabilities that a child of root keeps: those of Docker containers, without two. With
// CAP_NET_RAW a child could read client tokens on the loopback interface, as it has no network namespace. With
// CAP_MKNOD it could open every device, as it has no device cgroup. The others are what package managers need to change
// owners, users and directories. None gives access to the memory of a more privileged process.
const KeptCapabilities uint64 = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_SETFCAP |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_AUDIT_WRITE

// ConfinedCapabilities are the capabilities that a sandboxed child of root keeps: it reads and writes what its sandbox
// shows, regardless of owners. Landlock does not control modes, owners and file capabilities, so the child must not be
// able to change those of other users' files.
const ConfinedCapabilities uint64 = 1 << unix.CAP_DAC_OVERRIDE

// Privileges prevents the programs that this thread starts from gaining privileges: setuid and file capabilities have
// no effect for them, and as root they have at most the capabilities in kept. Other threads are not affected. The
// thread must not be used for anything else.
//
// No_new_privs is also a mark of children, see package lineage. If this process already has it, the thread gets a
// filter that permits all system calls instead; marked is false if the kernel rejects it.
func Privileges(kept uint64) (marked bool, err error) {
	had := hadNoNewPrivs()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return false, fmt.Errorf("set no_new_privs: %w", err)
	}
	if marked = true; had {
		permit := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
		program := unix.SockFprog{Len: 1, Filter: &permit}
		marked = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) ==
			nil
	}
	return marked, drop(kept)
}

// hadNoNewPrivs reports whether this process itself has no_new_privs.
var hadNoNewPrivs = sync.OnceValue(func() bool {
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && n == 1
})

// drop limits the programs that this thread starts to the capabilities in kept.
func drop(kept uint64) error {
	if err := boundCapabilities(kept); err == nil {
		// The thread keeps its own capabilities: a process with fewer cannot trace it, and so cannot read the memory
		// that it shares with the host.
		return ReduceCapabilities(^uint64(0))
	}
	// Without CAP_SETPCAP the bounding set stays. Under no_new_privs, a program has at most the capabilities of the
	// thread that starts it.
	return ReduceCapabilities(kept)
}

// boundCapabilities reduces the bounding set of this thread, which limits the capabilities of root's programs, to kept.
func boundCapabilities(kept uint64) error {
	for c := range 64 {
		if kept>>c&1 == 1 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); errors.Is(err, unix.EINVAL) {
			return nil // the last capability of this kernel was reached
		} else if err != nil {
			return err
		}
	}
	return nil
}

// ReduceCapabilities reduces the capabilities of this thread to kept, and clears those that a non-root program would
// inherit (inheritable and ambient).
func ReduceCapabilities(kept uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData // lower and upper half of each set
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read its capabilities: %w", err)
	}
	for i := range caps {
		half := uint32(kept >> (32 * i))
		caps[i].Permitted &= half
		caps[i].Effective &= half
		caps[i].Inheritable = 0 // this clears the ambient set too
	}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("reduce its capabilities: %w", err)
	}
	return nil
}
