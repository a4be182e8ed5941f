package confine

import "golang.org/x/sys/unix"

// archOf is the kernel's name of the syscall interface to which the numbers of x/sys/unix belong.
const archOf = unix.AUDIT_ARCH_AARCH64

var (
	refusedHere = []uintptr{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_LOOKUP_DCOOKIE}
	changesHere []uintptr
)

// modeOf maps system calls to the argument that is a file mode.
var modeOf = map[uintptr]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2}
