//go:build !linux && !darwin

package lineage

// Of knows nothing on this system, and takes every process for unrelated.
func Of(int) Relation { return Unrelated }

// OfSocket knows nothing on this system.
func OfSocket(uint32, int) Relation { return Unrelated }

// Nested is false: there are no pid namespaces on this system.
func Nested(int) bool { return false }

// Hiding is "": this system hides none, or nothing is known of them.
func Hiding() string { return "" }
