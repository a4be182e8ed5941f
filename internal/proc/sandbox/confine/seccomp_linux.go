//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, for little-endian processors. archOf exists only for these.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// refusedAlways are system calls that no extension needs, and that could be used to leave the confinement, to look into
// other processes or to reach rarely used parts of the kernel.
var refusedAlways = append([]uintptr{
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
	unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_FANOTIFY_INIT,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_ACCT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_QUOTACTL,
	unix.SYS_QUOTACTL_FD, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_MOVE_PAGES,
	unix.SYS_MIGRATE_PAGES,
	// System V and POSIX IPC objects are shared with all processes of the user.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP,
	unix.SYS_SEMCTL,
	unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}, refusedHere...)

// refusedWithoutWrite change modes, owners, times and attributes of files, which Landlock does not control. They are
// refused to extensions that write nowhere.
var refusedWithoutWrite = append([]uintptr{
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR,
	unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
}, changesHere...)

// unknownHere are calls that the filter answers as if the kernel did not have them. Programs try
// them first and can do without.
var unknownHere = []uintptr{unix.SYS_CLONE3, unix.SYS_FCHMODAT2} // the flags of clone3 are not visible to a filter

// userOf is the value of the first argument with which a call affects all processes of a user.
var userOf = map[uintptr]uint32{unix.SYS_SETPRIORITY: unix.PRIO_USER, unix.SYS_IOPRIO_SET: 3} // IOPRIO_WHO_USER

// newestKnown is the highest system call number known when these lists were made. Later calls are refused as unknown.
const newestKnown = unix.SYS_RSEQ_SLICE_YIELD

const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter is a BPF program that judges system calls. Each part either returns or continues with the call's number in the
// accumulator.
type filter []bpf.Instruction

var (
	permit  = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	end     = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	number  = bpf.LoadAbsolute{Off: offNumber, Size: 4}
	unknown = refuse(unix.ENOSYS)
)

func refuse(errno unix.Errno) bpf.RetConstant {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// arg loads the lower half of the n-th argument, which is all that the kernel reads of an int.
func arg(n uint32) bpf.LoadAbsolute { return bpf.LoadAbsolute{Off: offArgs + 8*n, Size: 4} }

// when adds a part that runs for one system call.
func (f *filter) when(call uintptr, part ...bpf.Instruction) {
	part = append(part, number)
	*f = append(*f, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(call), SkipTrue: uint8(len(part))})
	*f = append(*f, part...)
}

func (f *filter) refuse(errno unix.Errno, calls []uintptr) {
	for _, call := range calls {
		*f = append(*f, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(call), SkipTrue: 1}, refuse(errno))
	}
}

// is returns a part that ends with ret if the accumulator is one of values.
func is(ret bpf.RetConstant, values ...uint32) (part []bpf.Instruction) {
	for _, v := range values {
		part = append(part, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: v, SkipTrue: 1}, ret)
	}
	return part
}

// filterOf returns the filter for a process. writes: it may write files. inet: it may open internet sockets.
func filterOf(writes, inet bool) filter {
	f := filter{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: archOf, SkipTrue: 1}, end, // other interfaces number calls differently
		number,
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: uint32(newestKnown), SkipTrue: 1}, unknown,
	}
	f.refuse(unix.EPERM, refusedAlways)
	f.refuse(unix.ENOSYS, unknownHere)
	if !writes {
		f.refuse(unix.EPERM, refusedWithoutWrite)
	}
	// The host sets limits on a child by tracing it before its first instruction. So a process may
	// ask to be traced by its parent, and a parent may end the tracing.
	f.when(unix.SYS_PTRACE, append(append([]bpf.Instruction{arg(0)},
		is(permit, unix.PTRACE_TRACEME, unix.PTRACE_DETACH)...), refuse(unix.EPERM))...)
	f.when(unix.SYS_CLONE, arg(0), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: namespaceFlags, SkipTrue: 1},
		refuse(unix.EPERM))
	f.when(unix.SYS_IOCTL, append([]bpf.Instruction{arg(1)},
		is(refuse(unix.EPERM), unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD, unix.TIOCCONS)...)...)
	deny := refuse(unix.EPERM)
	for _, call := range []uintptr{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} { // of this process alone
		f.when(call, arg(1), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, deny, arg(0),
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: userOf[call], SkipTrue: 1}, deny)
	}
	for call, n := range modeOf { // no setuid and setgid programs: they would serve other users
		f.when(call, arg(n), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.S_ISUID | unix.S_ISGID, SkipTrue: 1},
			deny)
	}
	// Limits, scheduling and CPU affinity: of this process alone.
	for _, call := range []uintptr{
		unix.SYS_PRLIMIT64,
		unix.SYS_SCHED_SETAFFINITY,
		unix.SYS_SCHED_SETSCHEDULER,
		unix.SYS_SCHED_SETPARAM,
		unix.SYS_SCHED_SETATTR,
	} {
		f.when(call, arg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, deny)
	}
	f.sockets(inet)
	return append(f, permit)
}

// sockets permits connected pairs, and internet sockets if inet is set. A pair of datagram sockets could send to any
// address, and pairs of another family (TIPC) can reach other machines.
func (f *filter) sockets(inet bool) {
	f.when(unix.SYS_SOCKETPAIR, arg(0), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1},
		refuse(unix.EACCES),
		// SOCK_RAW has this bit too
		arg(1), bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.SOCK_DGRAM, SkipTrue: 1}, refuse(unix.EACCES))
	if !inet {
		f.when(unix.SYS_SOCKET, refuse(unix.EACCES))
		return
	}
	f.when(unix.SYS_SOCKET, append(append([]bpf.Instruction{arg(0)}, is(permit, unix.AF_INET, unix.AF_INET6)...),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_NETLINK, SkipTrue: 1}, refuse(unix.EACCES),
		arg(2), bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1}, refuse(unix.EACCES))...)
}

// Notify makes the kernel report some system calls of this thread, and of the processes that it starts, before they
// run. It returns the listener (seccomp_unotify(2)).
func Notify(calls []uint32) (listener int, err error) {
	f := filter{number}
	for _, call := range calls {
		f = append(f, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1},
			bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF})
	}
	return install(append(f, permit), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
}

// seccomp installs f for this thread and the processes that it starts.
func seccomp(f filter) error {
	_, err := install(f, 0)
	return err
}

// install installs f with flags. It returns the descriptor that some flags create.
func install(f filter, flags uintptr) (int, error) {
	raw, err := bpf.Assemble(f)
	if err != nil {
		return 0, fmt.Errorf("assemble the filter: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// FiltersCalls reports whether the kernel supports filters of system calls.
func FiltersCalls() bool {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, 0)
	return errno == unix.EFAULT // it tried to read the filter
}
