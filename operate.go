package exthost

import (
	"context"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Plan returns what [Admin.Reload] would change now, as far as that is known without starting anything.
func (a Admin) Plan(ctx context.Context) (*status.Change, error) {
	a.h.reloads.mu.Lock()
	defer a.h.reloads.mu.Unlock()
	_, c, err := a.h.reloads.plan(ctx, nil)
	return c, err
}

// Reload applies the current configuration and search paths. New and changed extensions start beside the running
// ones; then calls go to them; then removed extensions end once their calls have, within their drain_timeout. If
// a new build is broken, lacks something or does not start, the previous one goes on; with reload = "stop_first"
// that ends before the new one starts. Failed extensions are started again. An unusable configuration and a
// policy that does not start are errors and change nothing; so is the end of ctx or of the host.
//
// With ids, only these extensions and their servers change, by their files and by extensions.disabled and
// allowlist; all others stay as they are, even failed ones.
func (a Admin) Reload(ctx context.Context, only ...string) (*status.Change, error) {
	return a.h.reloads.Reload(ctx, only...)
}

// Restart replaces the instances of an extension, or of policy:NAME, and forgets their failures, which ends the
// state failed. Calls in flight may end, within its drain_timeout. Restart waits until the new instances can be
// called, and returns why one cannot; when ctx ends the restart goes on. Instances that were never called stay
// stopped. The error is requirement_missing if the extension may not run here, tool_not_found if it is unknown.
func (a Admin) Restart(ctx context.Context, id string) error {
	return a.h.nodes.Local.Restart(ctx, id)
}

// Watch sets whether the host looks for changes on disk: "log" logs a change, "reload" applies it, "on" does what
// the configuration states, "off" stops. The mode holds until the host ends or extensions.watch changes. The
// error is that of ctx, shutting_down, or invalid_arguments for an unknown mode.
func (a Admin) Watch(ctx context.Context, mode string) (status.Watch, error) {
	return a.h.watch.Set(ctx, mode)
}

// Enable lets a disabled extension run again: it removes the id from extensions.disabled by [Options].Disable,
// which holds for later starts too, and reloads that extension alone. The error is rejected if the configuration
// still keeps the extension from running: its allowlist, or a disabled owner.
func (a Admin) Enable(ctx context.Context, id string) error { return a.h.nodes.Local.Enable(ctx, id) }

// Disable stops an extension: it adds the id to extensions.disabled by [Options].Disable, which holds for later
// starts too, and reloads that extension alone. Calls in flight may end, within its drain_timeout.
func (a Admin) Disable(ctx context.Context, id string) error { return a.h.nodes.Local.Disable(ctx, id) }

// Approve allows the call of an approval request, once: at once if its caller waits, else when the same caller
// repeats the call in time. by names the approver. The error is tool_not_found if the request no longer waits.
func (a Admin) Approve(id, by string) error { return a.h.nodes.Local.Approve(id, by) }

// Deny refuses the call of an approval request. reason may be "".
func (a Admin) Deny(id, by, reason string) error { return a.h.nodes.Local.Deny(id, by, reason) }

// TestCall takes the request flow of c through the policies, sends nothing, and returns the decisions and the
// error that the call would have had. It asks no approval and runs no audit; policies that count do count the
// call.
func (a Admin) TestCall(ctx context.Context, c *protocol.Call) (Trace, error) {
	return a.h.dispatcher.Test(ctx, c)
}

// TestHooks is [Host.RunHooks] for an event of any point, which it simulates. The hooks really run, with all
// their effects; their approval requests reach no one. e.Tool, if set, is a registered name and determines the
// extension.
func (a Admin) TestHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	if entry, ok := a.h.Tools().Lookup(e.Tool); ok {
		e.Extension, e.OwnName = entry.Extension, entry.Tool
	}
	s := a.h.snapshots.Enter()
	defer s.Leave()
	return runHooks(ctx, s, &e, (*hooks.Set).Test)
}
