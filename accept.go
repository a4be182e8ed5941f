package exthost

import (
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Pins returns what policies have pinned, by policy, extension, kind and name; what is held for
// its hidden text; and the tools of other extensions that changed since the operator accepted
// them. Those that wait for the operator have a digest.
func (a Admin) Pins() []status.Pin {
	return a.h.snapshots.Load().Pins()
}

// Selection is what an operator accepts of an extension.
type Selection = policies.Selection

// AcceptTools accepts what is selected of an extension as it was shown to the operator: the warning that its tools
// changed ends, also for later hosts, and what policies hold back is pinned and listed. by names
// the operator. Nothing to accept is a tool_not_found error, and so is a change of what was
// shown to the operator.
func (a Admin) AcceptTools(s Selection, by string) error {
	now := a.h.snapshots.Load()
	pinned, err := a.h.policies.ApprovePins(now.Policies, s, by)
	defer announceAccepted(a.h, s.Extension, pinned)
	defer a.h.swap(nil) // also after an error: what was accepted before it is listed
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

// announceAccepted tells clients of what is listed now. Tools of extensions are announced with the snapshot
// that has them.
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
