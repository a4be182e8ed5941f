package process

import (
	"runtime/debug"

	"github.com/exthost/exthost/internal/proc/containment/helper"
)

// Trim releases memory that only the start of this process needed: garbage, and pages of the program, see
// [helper.UnmapProgram]. It takes some milliseconds that slow down calls, so call it at the end of a start.
func Trim() {
	debug.FreeOSMemory()
	helper.UnmapProgram()
}
