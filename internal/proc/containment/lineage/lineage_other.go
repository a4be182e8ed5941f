//go:build !linux && !darwin

package lineage

// Of returns [Unrelated]: nothing is known about processes on this system.
func Of(int) Relation { return Unrelated }

// OfSocket returns [Unrelated]: nothing is known about sockets on this system.
func OfSocket(uint32, int) Relation { return Unrelated }

// Nested returns false: there are no pid namespaces on this system.
func Nested(int) (nested, visible bool) { return false, true }

// Hiding returns "": nothing is known about hidden processes on this system.
func Hiding() string { return "" }
