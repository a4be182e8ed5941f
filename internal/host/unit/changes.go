package unit

import (
	"slices"

	"github.com/exthost/exthost/internal/host/descriptors"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Remember stores the descriptors of an instance for the next start; announced says that they are not from its
// handshake. Tools that the manifest lists are not stored.
func (x *Extension) Remember(i *Instance, announced bool) {
	if declares(x.Spec) {
		return
	}
	if err := x.known.Update(&descriptors.Entry{Key: i.Fingerprint, Handshake: *i.Handshake()}, announced); err != nil {
		x.Log.Debug("the tools of the extension could not be stored", "error", err)
	}
}

// Changed reports how the tools differ from those that the operator accepted last. With pinned, a policy already
// reports altered and new tools.
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

// Pending returns the differences of each tool from the accepted one.
func (x *Extension) Pending() []descriptors.Pending { return x.known.Pending() }

// AcceptTools accepts the selected tools as they are now, and reports whether that changed anything.
func (x *Extension) AcceptTools(selected func(descriptors.Pending) bool) (changed bool, err error) {
	return x.known.Accept(selected)
}
