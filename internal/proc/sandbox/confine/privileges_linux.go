package confine

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// KeptCapabilities are the capabilities that a child of root keeps: those of containers, as
// Docker starts them, without two. A child has no network namespace, so with CAP_NET_RAW it
// would read the tokens of clients on the loopback interface; it has no device cgroup, so
// with CAP_MKNOD it could open every device. The kept ones let package managers work: they
// change owners, users and directories. None opens the memory of a process that has more.
const KeptCapabilities uint64 = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID |
	1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_SETFCAP |
	1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_AUDIT_WRITE

// ConfinedCapabilities are those of a child of root in a sandbox: it reads and writes what its sandbox
// shows, whoever owns it. Landlock does not know modes, owners and capabilities of files, so a child
// must not change those of others.
const ConfinedCapabilities uint64 = 1 << unix.CAP_DAC_OVERRIDE

// Privileges keeps the programs that this thread starts from gaining privileges: setuid
// programs and file capabilities have no effect for them, and as root they have at most
// the capabilities in kept. Other threads are not affected. The thread must not be used for
// anything else.
//
// No_new_privs is also the mark of children, see package lineage. Where this process has it
// already, they get a filter of system calls that permits all; marked is false where the kernel
// takes none.
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

// hadNoNewPrivs reports whether this process has no_new_privs apart from threads for children.
var hadNoNewPrivs = sync.OnceValue(func() bool {
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && n == 1
})

// drop leaves to the programs that this thread starts at most the capabilities in kept.
func drop(kept uint64) error {
	if err := boundCapabilities(kept); err == nil {
		// The thread keeps its own: a process with fewer cannot trace it, and so not read the
		// memory that the thread shares with the host.
		return ReduceCapabilities(^uint64(0))
	}
	// Without CAP_SETPCAP the bounding set stays. Under no_new_privs a program has at most the
	// capabilities of the thread that starts it.
	return ReduceCapabilities(kept)
}

// boundCapabilities removes all others than kept from the bounding set of this
// thread, from which a program of root gets its capabilities.
func boundCapabilities(kept uint64) error {
	for c := range 64 {
		if kept>>c&1 == 1 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); errors.Is(err, unix.EINVAL) {
			return nil // the kernel has no more of them
		} else if err != nil {
			return err
		}
	}
	return nil
}

// ReduceCapabilities leaves to this thread those of its capabilities that are in kept, and
// none that a program of an ordinary user would inherit (the inheritable and ambient ones).
func ReduceCapabilities(kept uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData // the lower and the upper half of each set
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return fmt.Errorf("read its capabilities: %w", err)
	}
	for i := range caps {
		half := uint32(kept >> (32 * i))
		caps[i].Permitted &= half
		caps[i].Effective &= half
		caps[i].Inheritable = 0 // the kernel removes the ambient ones with these
	}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("reduce its capabilities: %w", err)
	}
	return nil
}
