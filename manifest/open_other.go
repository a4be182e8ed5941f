//go:build !unix

package manifest

// Elsewhere a directory holds no FIFOs, and a link is told from a file only by
// whoever lists the directory.
const (
	nonBlocking = 0
	noFollow    = 0
)
