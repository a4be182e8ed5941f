//go:build !linux

package resident

// Unmap does nothing on this system.
func Unmap() {}

// UnmapProgram does nothing on this system.
func UnmapProgram() {}
