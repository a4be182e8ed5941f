package confine

import "golang.org/x/sys/unix"

// archOf is the kernel's name of the syscall interface to which the numbers of x/sys/unix belong.
const archOf = unix.AUDIT_ARCH_X86_64

var (
	refusedHere = []uintptr{
		unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_IOPL,
		unix.SYS_IOPERM,
		unix.SYS_MODIFY_LDT,
		unix.SYS_USELIB,
		unix.SYS_USTAT,
		unix.SYS_LOOKUP_DCOOKIE,
	}
	changesHere = []uintptr{
		unix.SYS_CHMOD,
		unix.SYS_CHOWN,
		unix.SYS_LCHOWN,
		unix.SYS_UTIME,
		unix.SYS_UTIMES,
		unix.SYS_FUTIMESAT,
	}
)

// modeOf maps system calls to the argument that is a file mode.
var modeOf = map[uintptr]uint32{unix.SYS_CHMOD: 1, unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2}
