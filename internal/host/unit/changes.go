package unit

import (
	"slices"

	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Remember keeps the offer of an instance for the next start. announced says that it is not
// that of a handshake. The tools of a manifest that lists them are not kept.
func (x *Extension) Remember(i *Instance, announced bool) {
	if declares(x.Spec) {
		return
	}
	if err := x.known.Update(&descriptors.Offer{Key: i.Fingerprint, Handshake: *i.Handshake()}, announced); err != nil {
		x.Log.Debug("the tools of the extension could not be stored", "error", err)
	}
}

// Changed says how the tools of the extension differ from those that the operator accepted
// last: they come from another program, or from one that has something to hide. pinned says
// that a policy reports those that are altered or new.
func (x *Extension) Changed(pinned bool) []protocol.Diagnostic {
	changes := x.known.Changes()
	if pinned {
		changes = slices.DeleteFunc(changes, func(c tools.Change) bool { return c.Altered() || c.Added() })
	}
	if len(changes) == 0 {
		return nil
	}
	return []protocol.Diagnostic{{Level: protocol.LevelWarn, Code: string(protocol.DescriptorChanged),
		Extension: x.ID(), Path: x.Candidate.Path,
		Message: "tools changed: " + descriptors.Describe(changes),
		Hint: "exthost tools accept " + x.ID() + " if that is right; else exthost disable " + x.ID() +
			", and ask its author"}}
}

// Pending returns how each tool differs from what the operator accepted last.
func (x *Extension) Pending() []descriptors.Pending { return x.known.Pending() }

// AcceptTools accepts the tools that are selected as they are now, and reports whether that is
// a change.
func (x *Extension) AcceptTools(selected func(descriptors.Pending) bool) (changed bool, err error) {
	return x.known.Accept(selected)
}
