//go:build !linux

package sweep

import "time"

// Looks is used on Linux only.
type Looks struct{}

// NewLooks returns nil on this system.
func NewLooks() *Looks { return nil }

// StartTime returns 0 on this system.
func StartTime(int) uint64 { return 0 }

// OwnMarks returns an empty range: this system cannot mark processes.
func OwnMarks() Marks { return Marks{} }

// Find finds nothing on this system.
func Find(Marks) []Found { return nil }

// End does nothing on this system.
func End(Marks, time.Duration) (found, survived []Found) { return nil, nil }

// Runs returns false: Find finds nothing on this system.
func (f Found) Runs() bool { return false }

// HostRuns returns false: the marks are empty on this system.
func (m Marks) HostRuns() bool { return false }
