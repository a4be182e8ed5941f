package limited

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// pidLimit holds the highest process id of a pid namespace.
const pidLimit = "/proc/sys/kernel/pid_max"

// reservedPIDs are ids that the kernel does not use again after wrapping around (RESERVED_PIDS).
const reservedPIDs = 300

// confinedProcesses is the default number of processes and threads of a sandbox with namespaces. Browsers have some
// hundreds.
const confinedProcesses = 2048

// OfSandbox returns the default limit of processes for a sandbox; 0 where the system cannot enforce one.
func OfSandbox() int {
	if processesCanBeBound() != nil {
		return 0
	}
	return confinedProcesses
}

// processesCanBeBound returns nil if the processes of a pid namespace can be limited, else the reason. Before Linux
// 6.14, pid_max is global instead of per namespace.
var processesCanBeBound = sync.OnceValue(func() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	release := unix.ByteSliceToString(name.Release[:])
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	m, _ := strconv.Atoi(major)
	n, _ := strconv.Atoi(minor)
	if m > 6 || m == 6 && n >= 14 {
		return nil
	}
	return fmt.Errorf("this is Linux %s, and 6.14 is needed", release)
})

// BoundProcesses limits the pid namespace of this process, whose /proc is mounted, to about n processes and threads. No
// process of the namespace can undo it. 0 means no limit.
func BoundProcesses(n int) error {
	if n == 0 {
		return nil
	}
	if err := processesCanBeBound(); err != nil {
		return err
	}
	if err := os.WriteFile(pidLimit, strconv.AppendInt(nil, int64(reservedPIDs+n), 10), 0); err != nil {
		return err
	}
	return errors.Join(unix.Mount(pidLimit, pidLimit, "", unix.MS_BIND, ""),
		unix.Mount("", pidLimit, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}
