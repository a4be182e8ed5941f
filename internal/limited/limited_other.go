//go:build !linux

package limited

import "os"

// Enforced reports whether [Limits] have an effect on this system.
const Enforced = false

// Start starts a process. Limits have no effect on this system.
func Start(path string, argv []string, attr *os.ProcAttr, _ Limits) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}

// OfSandbox is 0: this system bounds no processes.
func OfSandbox() int { return 0 }
