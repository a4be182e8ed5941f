//go:build !linux

package peer

// Stopped reports whether a process is stopped by a signal. It is false for a process that cannot be seen,
// and on systems without /proc.
func Stopped(int) bool { return false }

// Listening returns the paths of the unix sockets of all users that listen in this network namespace. It
// returns none on systems without /proc.
func Listening() []string { return nil }
