package exthost

import (
	"context"

	"github.com/exthost/exthost/hooks"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Plan returns what [Admin.Reload] would do now, as far as that is known without a start.
func (a Admin) Plan(ctx context.Context) (*status.Change, error) {
	a.h.reloads.mu.Lock()
	defer a.h.reloads.mu.Unlock()
	_, c, err := a.h.reloads.plan(ctx, nil)
	return c, err
}

// Reload brings the host to what its configuration and the search paths hold now.
// Extensions that are new or changed start beside those that run; then calls go to them;
// then extensions that are gone end, once their calls have, within their drain_timeout. An
// extension whose new build is broken, lacks something or does not start goes on as it was;
// with reload = "stop_first" it ends before its new build starts. An extension that had
// failed is started again. A configuration that cannot be used and a policy that does not
// start are errors, and change nothing; nor does an end of ctx or of the host meanwhile.
//
// With ids, only extensions of these ids and their servers change, by their files and by
// extensions.disabled and allowlist; all others stay as they are, also those that have failed.
func (a Admin) Reload(ctx context.Context, only ...string) (*status.Change, error) {
	return a.h.reloads.Reload(ctx, only...)
}

// Restart replaces the instances of an extension, or of policy:NAME, and forgets their
// failures, which ends the state failed. Calls in flight may end, within its drain_timeout.
// Restart waits until the new instances can be called, and returns why one cannot; when ctx
// ends the restart goes on. Instances that nobody has called stay stopped. An extension that
// may not run here is a requirement_missing error, an unknown one tool_not_found.
func (a Admin) Restart(ctx context.Context, id string) error {
	return a.h.nodes.Here.Restart(ctx, id)
}

// Watch sets whether the host looks for changes on disk: "log" logs a change, "reload"
// applies it, "on" does what the configuration says of the two, "off" stops. It holds until
// the host ends or extensions.watch of its configuration changes. The error is that of ctx,
// shutting_down, or invalid_arguments for an unknown mode.
func (a Admin) Watch(ctx context.Context, mode string) (status.Watch, error) {
	return a.h.watch.Set(ctx, mode)
}

// Enable lets a disabled extension run again, also after the next start: it removes the id from
// extensions.disabled by [Options].Disable, and reloads that extension alone. The error is rejected if the
// configuration still keeps the extension from running: its allowlist, or an owner that is
// disabled.
func (a Admin) Enable(ctx context.Context, id string) error { return a.h.nodes.Here.Enable(ctx, id) }

// Disable stops an extension, also after the next start: it adds the id to extensions.disabled by
// [Options].Disable, and reloads that extension alone. Calls in flight may end, within its drain_timeout.
func (a Admin) Disable(ctx context.Context, id string) error { return a.h.nodes.Here.Disable(ctx, id) }

// Approve lets the call of an approval request be made, once: now if its caller waits, else when the
// same caller makes the same call again in time. by names the approver. A request that
// does not wait any more is a tool_not_found error.
func (a Admin) Approve(id, by string) error { return a.h.nodes.Here.Approve(id, by) }

// Deny refuses the call of an approval request. reason may be "".
func (a Admin) Deny(id, by, reason string) error { return a.h.nodes.Here.Deny(id, by, reason) }

// TestCall takes the request flow of c through the policies, sends nothing, and returns the
// decisions and the error that the call would have had. Nobody is asked and audit does not
// run; policies that count do count the call.
func (a Admin) TestCall(ctx context.Context, c *protocol.Call) (Trace, error) {
	return a.h.dispatcher.Test(ctx, c)
}

// TestHooks is [Host.RunHooks] for an event of any point that is not happening. The hooks
// really run, with all their effects; their approval requests are put to nobody. e.Tool, where
// stated, is a registered name, which names the extension as well.
func (a Admin) TestHooks(ctx context.Context, e hooks.Event) (hooks.Outcome, error) {
	if entry, ok := a.h.Tools().Lookup(e.Tool); ok {
		e.Extension, e.OwnName = entry.Extension, entry.Tool
	}
	s := a.h.snapshots.Enter()
	defer s.Leave()
	return runHooks(ctx, s, &e, (*hooks.Set).Test)
}
