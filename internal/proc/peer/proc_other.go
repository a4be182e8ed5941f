//go:build !linux

package peer

// Stopped reports whether a process is stopped by a signal; false if it is not visible, and on systems without /proc.
func Stopped(int) bool { return false }

// Listening returns the paths of all users' listening unix sockets in this network namespace; none on systems without
// /proc.
func Listening() []string { return nil }

// PortHolder returns the process that listens on a TCP port; pid is 0 and uid -1 on systems without /proc.
func PortHolder(uint16) (pid int, program string, uid int) { return 0, "", -1 }
