//go:build !unix

package regular

// On these systems directories contain no FIFOs, and opening a file does not tell a link from its target.
const (
	nonBlocking = 0
	noFollow    = 0
)
