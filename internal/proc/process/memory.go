package process

import (
	"runtime/debug"

	"github.com/exthost/exthost/internal/proc/containment/resident"
)

// Trim gives back what the start of this process needed and its work does not: garbage, and the pages of
// the program that are not used any more, see [resident.UnmapProgram]. It takes some milliseconds, in which calls
// are answered more slowly, so it is for the end of a start.
func Trim() {
	debug.FreeOSMemory()
	resident.UnmapProgram()
}
