package exthost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/dispatch"
	"github.com/exthost/exthost/internal/redact"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Trace is the record of one exchange: the decision of each policy, and how long that took.
// It holds no payload.
type Trace = governance.Trace

// Traces returns the records of the last n exchanges that ended, the newest first. The last
// 1024 are kept, and none while there are no policies.
func (a Admin) Traces(n int) []Trace {
	list := a.h.policies.Traces.Latest(n)
	for _, t := range list {
		maskReasons(t)
	}
	return list
}

// maskReasons masks the texts of policies, which may quote the request.
func maskReasons(t Trace) {
	for i := range t.Steps {
		t.Steps[i].Reason, _ = redact.Default().Text(t.Steps[i].Reason)
	}
}

// Trace returns the record of one decision by its id. A decision that is not kept is a
// tool_not_found error.
func (a Admin) Trace(id string) (Trace, error) {
	t, ok := a.h.policies.Traces.Get(id)
	if !ok {
		return t, protocol.Errorf(protocol.ToolNotFound, "there is no decision %q among the last that are kept", id)
	}
	maskReasons(t)
	return t, nil
}

// TestCall takes the request flow of c through the policies, sends nothing, and returns the
// decisions and the error that the call would have had. Nobody is asked and audit does not
// run; policies that count do count the call.
func (a Admin) TestCall(ctx context.Context, c *protocol.Call) (Trace, error) {
	return a.h.dispatcher.Test(ctx, c)
}

// Question is a question of a policy or a hook to a person: may this call be made, once?
type Question = approval.Question

// Questions returns the questions that wait for an answer, the oldest first.
func (a Admin) Questions() []Question { return a.h.policies.Approvals.List() }

// QuestionsChanged returns a channel that is closed when [Admin.Questions] changes, other
// than by expiry.
func (a Admin) QuestionsChanged() <-chan struct{} { return a.h.policies.Approvals.Changed() }

// Approve lets the call of a question be made, once: now if its caller waits, else when the
// same caller makes the same call again in time. by names the approver. A question that
// does not wait any more is a tool_not_found error.
func (a Admin) Approve(id, by string) error {
	return a.answered(id, by, "approved", a.h.policies.Approvals.Approve(id, by))
}

// Deny refuses the call of a question. reason may be "".
func (a Admin) Deny(id, by, reason string) error {
	return a.answered(id, by, "denied", a.h.policies.Approvals.Deny(id, by, reason))
}

func (a Admin) answered(id, by, answer string, err error) error {
	switch {
	case errors.Is(err, approval.ErrUnknown):
		return protocol.Errorf(protocol.ToolNotFound, "%w", err)
	case err == nil:
		a.h.env.Log.Info("a question was answered", "question", id, "answer", answer, "by", by)
	}
	return err
}

// Pins returns the tools that policies have pinned, by policy, extension and tool.
func (a Admin) Pins() []status.Pin { return a.h.snapshots.Load().Policies.Pins() }

// ApprovePin pins a tool of an extension as it is now, or with tool "" all its tools that
// are withheld, and puts them into the catalog. tool is the extension's own name for it. by
// names the approver. Nothing to approve is a tool_not_found error.
func (a Admin) ApprovePin(extension, tool, by string) error {
	if err := a.h.policies.ApprovePin(a.h.snapshots.Load().Policies, extension, tool, by); err != nil {
		return err
	}
	a.h.swap(nil)
	return nil
}

// Enable lets a disabled extension run again, now and from now on: it removes the id from
// extensions.disabled by [Options].Disable, and reloads. The error is rejected if the
// configuration still keeps the extension from running: its allowlist, or an owner that is
// disabled.
func (a Admin) Enable(ctx context.Context, id string) error {
	if err := a.setDisabled(ctx, id, false); err != nil {
		return err
	}
	for _, x := range a.h.Status().Extensions {
		if x.ID == id && x.State == status.StateDisabled {
			return protocol.Errorf(protocol.Rejected, "%s still does not run: %s", id, x.Reason)
		}
	}
	return nil
}

// Disable stops an extension, now and from now on: it adds the id to extensions.disabled by
// [Options].Disable, and reloads. Calls in flight may end, within its drain_timeout.
func (a Admin) Disable(ctx context.Context, id string) error { return a.setDisabled(ctx, id, true) }

func (a Admin) setDisabled(ctx context.Context, id string, disabled bool) error {
	if a.h.opts.Disable == nil {
		return protocol.Errorf(protocol.ConfigInvalid, "the configuration of this host is not to be changed from here: change extensions.disabled where it comes from")
	}
	if err := a.h.mayDisable(id, disabled); err != nil {
		return err
	}
	if err := a.h.opts.Disable(id, disabled); err != nil {
		return err
	}
	if _, err := a.Reload(ctx); err != nil {
		return fmt.Errorf("it is written, and the host goes on as before: %w", err)
	}
	a.h.env.Log.Info(map[bool]string{true: "disabled", false: "enabled"}[disabled]+" by the operator", "extension", id)
	return nil
}

// mayDisable returns why there is nothing to enable or disable by that id; nil when there
// is.
func (h *Host) mayDisable(id string, disabled bool) error {
	now := h.snapshots.Load()
	listed := now.Config.Extensions.Disabled
	if owner, _, server := strings.Cut(id, "."); server && slices.Contains(listed, owner) && !slices.Contains(listed, id) {
		return protocol.Errorf(protocol.Rejected, "%s is disabled with %s, whose server it is: exthost enable %s", id, owner, owner)
	}
	if now.Destinations[id] != nil {
		return protocol.Errorf(protocol.InvalidArguments, "%s is a destination, which is there as long as destinations of the configuration names it", id)
	}
	var ids []string
	for _, x := range h.Status().Extensions {
		ids = append(ids, x.ID)
	}
	if slices.Contains(ids, id) || !disabled && slices.Contains(listed, id) {
		return nil
	}
	return dispatch.UnknownExtension(id, ids)
}
