package peer

import (
	"bytes"
	"fmt"
	"os"
)

// Stopped reports whether a process is stopped by a signal; false if it is not visible, and on systems without /proc.
func Stopped(pid int) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" T "))
}
