//go:build !linux

package process

import "os"

// CanLimit says whether [Limits] are kept on this system.
const CanLimit = false

// startProcess starts a process; there is no way to limit it from outside.
func startProcess(path string, argv []string, attr *os.ProcAttr, _ Limits) (*os.Process, error) {
	return os.StartProcess(path, argv, attr)
}
