//go:build !linux

package helper

// UnmapProgram does nothing on this system.
func UnmapProgram() {}
