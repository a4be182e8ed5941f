package confine

import "golang.org/x/sys/unix"

// archOf is how the kernel names the interface that the numbers of x/sys/unix belong to.
const archOf = unix.AUDIT_ARCH_AARCH64

var (
	refusedHere = []uintptr{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_LOOKUP_DCOOKIE}
	changesHere []uintptr
)

// modeOf is which argument of a call is the mode of a file.
var modeOf = map[uintptr]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2}
