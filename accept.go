package exthost

import (
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Pins returns the pinned descriptors, by policy, extension, kind and name; the items held back for hidden text;
// and the tools of other extensions that changed since the operator accepted them. A pin that waits for the
// operator has a digest.
func (a Admin) Pins() []status.Pin {
	return a.h.snapshots.Load().Pins()
}

// Selection names the items of one extension that an operator accepts.
type Selection = policies.Selection

// AcceptTools accepts the selected items of an extension as the operator was shown them: their warning ends, also
// for later hosts, and items that policies held back are pinned and listed. by names the operator. The error is
// tool_not_found if nothing is selected, or if an item changed since it was shown.
func (a Admin) AcceptTools(s Selection, by string) error {
	now := a.h.snapshots.Load()
	pinned, err := a.h.policies.ApprovePins(now.Policies, s, by)
	defer announceAccepted(a.h, s.Extension, pinned)
	defer a.h.swap(nil) // also after an error: items accepted before it are listed
	accepted, failed := now.AcceptTools(s, pinned)
	switch {
	case failed != nil:
		return protocol.Errorf(protocol.ConfigInvalid, "%s is accepted until this host ends, and not longer: %w",
			s.Extension, failed)
	case err != nil && !(accepted && protocol.KindOf(err) == protocol.ToolNotFound):
		return err
	case accepted:
		a.h.env.Log.Info("changed tools were accepted", "extension", s.Extension, "tool", s.Label, "by", by)
	}
	return nil
}

// announceAccepted notifies clients of lists that changed with accepted. Changed tools of extensions are
// announced with the next snapshot.
func announceAccepted(h *Host, extension string, accepted []status.Pin) {
	now := h.snapshots.Load()
	target := now.Target(extension)
	if target == nil {
		return
	}
	methods := map[pins.Kind]string{
		pins.Prompt:   protocol.MethodPromptsListChanged,
		pins.Resource: protocol.MethodResourcesListChanged,
		pins.Template: protocol.MethodResourcesListChanged,
	}
	if now.Destinations[extension] != nil {
		methods[pins.Tool] = protocol.MethodToolsListChanged
	}
	told := make(map[string]bool)
	for _, p := range accepted {
		if method := methods[p.Kind]; method != "" && !told[method] {
			told[method] = true
			h.gateway.NotifyListed(target.Base(), nil, method)
		}
	}
}
