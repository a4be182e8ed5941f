package protocol

import "slices"

// Risk is the most that a call of a tool can do.
type Risk string

// The risks, the lowest first. Any other value, the zero value too, counts as RiskDestroy.
const (
	RiskRead    Risk = "read"    // it changes nothing
	RiskWrite   Risk = "write"   // it changes something, and loses nothing
	RiskDestroy Risk = "destroy" // it may delete or overwrite
)

// Risks returns the risks, the lowest first.
func Risks() []Risk { return []Risk{RiskRead, RiskWrite, RiskDestroy} }

// Values returns the values allowed in files, the lowest risk first.
func (Risk) Values() []string {
	return []string{string(RiskRead), string(RiskWrite), string(RiskDestroy)}
}

// Known returns r, or RiskDestroy for a value that is no risk.
func (r Risk) Known() Risk {
	if slices.Contains(Risks(), r) {
		return r
	}
	return RiskDestroy
}

// Exceeds reports whether r is higher than other.
func (r Risk) Exceeds(other Risk) bool {
	return slices.Index(Risks(), r.Known()) > slices.Index(Risks(), other.Known())
}
