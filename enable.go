package exthost

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// Enable lets an extension run again that is disabled, now and from now on: it takes
// the id out of extensions.disabled by way of [Options].Disable, and reloads. The
// error says what else keeps the extension from running, if that is the
// configuration: rejected for the allowlist and for an owner that is disabled.
func (a Admin) Enable(ctx context.Context, id string) error {
	if err := a.rule(ctx, id, false); err != nil {
		return err
	}
	for _, x := range a.h.Status().Extensions {
		if x.ID == id && x.State == StateDisabled {
			return protocol.Errorf(protocol.Rejected, "%s still does not run: %s", id, x.Reason)
		}
	}
	return nil
}

// Disable stops an extension, now and from now on: it puts the id into
// extensions.disabled by way of [Options].Disable, and reloads. Calls in flight may
// end, within its drain_timeout.
func (a Admin) Disable(ctx context.Context, id string) error { return a.rule(ctx, id, true) }

func (a Admin) rule(ctx context.Context, id string, disabled bool) error {
	if a.h.opts.Disable == nil {
		return protocol.Errorf(protocol.ConfigInvalid, "the configuration of this host is not to be changed from here: change extensions.disabled where it comes from")
	}
	if err := a.h.rulable(id, disabled); err != nil {
		return err
	}
	if err := a.h.opts.Disable(id, disabled); err != nil {
		return err
	}
	if _, err := a.Reload(ctx); err != nil {
		return fmt.Errorf("it is written, and the host goes on as before: %w", err)
	}
	a.h.log.Info(map[bool]string{true: "disabled", false: "enabled"}[disabled]+" by the operator", "extension", id)
	return nil
}

// rulable is why there is nothing to enable or disable by that id.
func (h *Host) rulable(id string, disabled bool) error {
	g := h.gen.Load()
	listed := g.cfg.Extensions.Disabled
	if owner, _, server := strings.Cut(id, "."); server && slices.Contains(listed, owner) && !slices.Contains(listed, id) {
		return protocol.Errorf(protocol.Rejected, "%s is disabled with %s, whose server it is: exthost enable %s", id, owner, owner)
	}
	if g.bridged[id] != nil {
		return protocol.Errorf(protocol.InvalidArguments, "%s is a destination, which is there as long as destinations of the configuration names it", id)
	}
	var ids []string
	for _, x := range h.Status().Extensions {
		ids = append(ids, x.ID)
	}
	if slices.Contains(ids, id) || !disabled && slices.Contains(listed, id) {
		return nil
	}
	return unknownExtension(id, ids)
}
