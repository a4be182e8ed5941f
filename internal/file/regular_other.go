//go:build !unix

package file

// On these systems directories contain no FIFOs, and opening a file does not tell a link from its target.
const (
	nonBlocking = 0
	noFollow    = 0
)
