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

// pidLimit is the file with the highest process id of a pid namespace.
const pidLimit = "/proc/sys/kernel/pid_max"

// reservedPIDs are the ids that the kernel gives out once only (RESERVED_PIDS).
const reservedPIDs = 300

// confinedProcesses is how many processes and threads a sandbox with namespaces has at a time, where
// its limits state no number. Browsers have some hundreds.
const confinedProcesses = 2048

// OfSandbox is the number for a sandbox; 0 where the system cannot bound it.
func OfSandbox() int {
	if processesCanBeBound() != nil {
		return 0
	}
	return confinedProcesses
}

// processesCanBeBound returns why the processes of a pid namespace cannot be bound; nil if they can.
// Before Linux 6.14 the file is that of the whole machine, in each namespace.
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

// BoundProcesses has the pid namespace of this process, whose /proc is mounted, hold about n processes
// and threads at a time; 0 is no bound. No process of the namespace can change that.
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
