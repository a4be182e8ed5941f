//go:build !linux

package sweep

// Looks exist on Linux only.
type Looks struct{}

// NewLooks returns nil on this system.
func NewLooks() *Looks { return nil }

// StartTime returns 0 on this system.
func StartTime(int) uint64 { return 0 }
