package exthost

import (
	"debug/buildinfo"
	"strings"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/manifest"
)

// Containment says by what the processes that an extension starts are held, so
// that they end with it and with the host, however either ends.
type Containment struct {
	// Holds are of: "process group" (what stays in an extension's group dies with
	// it), "cookie sweep" (so does what left the group, but not its ancestors or
	// its environment), "guardian" (a process that does both when this one is
	// killed). Only what is in force at this moment is listed.
	Holds []string `json:"holds"`
	// Lacks are the others, and the reason after a colon.
	Lacks []string `json:"lacks,omitempty"`
}

// String names what holds: "process group + cookie sweep + guardian".
func (c Containment) String() string {
	if len(c.Holds) == 0 {
		return "none"
	}
	return strings.Join(c.Holds, " + ")
}

func (h *Host) contains() Containment {
	holds, lacks := h.containment.Report()
	return Containment{Holds: holds, Lacks: lacks}
}

// containment is what holds the processes of x besides what holds all; "" for none.
func (x *extension) containment() string {
	if x.options.Isolate == manifest.IsolatePID && process.CanIsolate {
		return process.HoldsNamespace
	}
	return ""
}

// guardianProgram is self when that is the exthost program, else "": any other
// would be run for something that it knows nothing of.
func guardianProgram(self string) string {
	if self == "" || self == ownProgram() {
		return self
	}
	if info, err := buildinfo.ReadFile(self); err != nil || info.Path != programPath {
		return ""
	}
	return self
}

// limits of m that this system cannot keep.
func unkeptLimits(m *manifest.Manifest) bool {
	return m.Runtime.Limits != manifest.Limits{} && !process.CanLimit
}
