//go:build !linux

package limited

import "os"

// Enforced reports whether [Limits] have an effect on this system.
const Enforced = false

// Start starts a process. Limits and marks have no effect on this system.
func Start(path string, argv []string, attr *os.ProcAttr, _ Limits, _ Mark) (proc *os.Process, marked bool, err error) {
	proc, err = os.StartProcess(path, argv, attr)
	return proc, false, err
}

// OfSandbox returns 0: this system cannot limit the number of processes.
func OfSandbox() int { return 0 }
