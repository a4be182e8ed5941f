//go:build !linux

package resident

// Unmap does nothing on this system.
func Unmap() {}
