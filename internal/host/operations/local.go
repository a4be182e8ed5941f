package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/host/policies"
	"github.com/exthost/exthost/internal/host/snapshot"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Local are the operations on one host. It is safe for concurrent use.
type Local struct {
	State     *policies.State
	Snapshots *snapshot.Store
	Reloads   Reloads
	Status    func() status.Status
	Enables   func(id string, disabled bool) error // writes extensions.disabled; nil: the configuration is read-only
	Log       *slog.Logger
}

// Reloads apply changes on disk.
type Reloads interface {
	// Reload reloads the extensions of these ids, or everything.
	Reload(ctx context.Context, only ...string) (*status.Change, error)
	// Restarted is called with the outcome of a restart.
	Restarted(ctx context.Context, u unit.Runner, err error)
}

// Restart replaces the instances of an extension, or of policy:NAME.
func (h *Local) Restart(ctx context.Context, id string) error {
	u, s := h.Snapshots.Load().Unit(id), h.Status()
	if err := s.NotHere(id, "restart"); err != nil { // an entry that stands for other nodes must not be restarted
		return err
	}
	if u == nil {
		return Cannot(s, id)
	}
	if err := permitted(ctx, u); err != nil { // what runs goes on
		return err
	}
	h.Log.Info("restarted by the operator", "extension", id)
	err := u.Restart(ctx)
	h.Reloads.Restarted(ctx, u, err)
	return err
}

// permitted returns why a new process of u may not start, nil if it may.
func permitted(ctx context.Context, u unit.Runner) error {
	err := u.Base().Permitted(ctx)
	if _, ok := u.(*unit.Extension); !ok { // the user agrees to a configuration, not to a destination or policy
		return err
	}
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		named := *e
		named.Extension = u.Base().ID()
		return &named
	}
	return err
}

// Enable lets a disabled extension run again.
func (h *Local) Enable(ctx context.Context, id string) error {
	if err := h.setDisabled(ctx, id, false); err != nil {
		return err
	}
	for _, x := range h.Status().Extensions {
		if x.ID == id && x.State == status.StateDisabled {
			return protocol.Errorf(protocol.Rejected, "%s still does not run: %s", id, x.Reason)
		}
	}
	return nil
}

// Disable stops an extension.
func (h *Local) Disable(ctx context.Context, id string) error { return h.setDisabled(ctx, id, true) }

func (h *Local) setDisabled(ctx context.Context, id string, disabled bool) error {
	if h.Enables == nil {
		return protocol.Errorf(protocol.ConfigInvalid,
			"the configuration of this host is not to be changed from here: change extensions.disabled where it "+
				"comes from")
	}
	if err := mayDisable(h.Snapshots.Load(), h.Status(), id, disabled); err != nil {
		return err
	}
	if err := h.Enables(id, disabled); err != nil {
		return err
	}
	if _, err := h.Reloads.Reload(ctx, id); err != nil {
		return fmt.Errorf("it is written, and the host goes on as before: %w", err)
	}
	h.Log.Info(map[bool]string{true: "disabled", false: "enabled"}[disabled]+" by the operator", "extension", id)
	return nil
}

// mayDisable returns why extension id cannot be enabled or disabled, nil if it can.
func mayDisable(now *snapshot.Snapshot, s status.Status, id string, disabled bool) error {
	listed := now.Config.Extensions.Disabled
	if owner, server := manifest.OwnerOf(id); server && slices.Contains(listed, owner) &&
		!slices.Contains(listed, id) {
		return protocol.Errorf(protocol.Rejected, "%s is disabled with %s, whose server it is: exthost enable %s", id,
			owner, owner)
	}
	if now.Destinations[id] != nil {
		return protocol.Errorf(protocol.InvalidArguments,
			"%s is a destination, which is there as long as destinations of the configuration names it", id)
	}
	if err := s.NotHere(id, map[bool]string{true: "disable", false: "enable"}[disabled]); err != nil {
		return err
	}
	var ids []string
	for _, x := range s.Extensions {
		ids = append(ids, x.ID)
	}
	if slices.Contains(ids, id) || !disabled && slices.Contains(listed, id) {
		return nil
	}
	return dispatch.UnknownExtension(id, ids)
}

// Approve allows the call of an approval request, once.
func (h *Local) Approve(id, by string) error {
	return answered(h.Log, id, by, "approved", h.State.Approvals.Approve(id, by))
}

// Deny refuses the call of an approval request.
func (h *Local) Deny(id, by, reason string) error {
	return answered(h.Log, id, by, "denied", h.State.Approvals.Deny(id, by, reason))
}

func answered(log *slog.Logger, id, by, answer string, err error) error {
	switch {
	case errors.Is(err, approval.ErrUnknown), errors.Is(err, approval.ErrAnswered):
		return protocol.Errorf(protocol.ToolNotFound, "%w", err)
	case err == nil:
		log.Info("an approval request was answered", "approval", id, "answer", answer, "by", by)
	}
	return err
}

// Cannot returns why extension id cannot be restarted.
func Cannot(s status.Status, id string) error {
	var ids []string
	for _, p := range s.Policies {
		if status.PolicyPrefix+p.Name == id {
			return protocol.Errorf(protocol.InvalidArguments, "policy %s is %s, and has no process to restart", p.Name,
				p.State)
		}
		ids = append(ids, status.PolicyPrefix+p.Name)
	}
	for _, x := range s.Extensions {
		if x.ID == id && x.State == status.StateDisabled {
			return protocol.Errorf(protocol.Rejected, "extension %s is disabled: %s", id, x.Reason)
		}
		if x.ID == id {
			return protocol.Errorf(protocol.RequirementMissing, "extension %s is %s: %s", id, x.State, x.Reason)
		}
		ids = append(ids, x.ID)
	}
	return dispatch.UnknownExtension(id, ids)
}
