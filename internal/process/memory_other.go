//go:build !linux

package process

// SessionMemory returns nothing: only Linux is asked.
func SessionMemory() map[int]int64 { return nil }

// Memory returns 0: only Linux is asked.
func Memory() int64 { return 0 }
