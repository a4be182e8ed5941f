package dev

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// reloaded prints the result of a save.
func (b *builds) reloaded(r exthost.Reloaded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Err != nil {
		b.print("%snot reloaded, nothing changes: %s", b.paint(console.Red, "✗ "), console.SafeText(message(r.Err)))
		return
	}
	c, s, shown := r.Change, b.host.Status(), !r.Change.Empty()
	for _, x := range s.Extensions {
		if slices.Contains(c.Added, x.ID) || slices.Contains(c.Retried, x.ID) {
			b.showExtension(x, "ready in "+console.Span(r.Took))
		}
	}
	for _, x := range s.Extensions {
		shown = b.showSwapped(x, r) || shown
	}
	for _, id := range c.Removed {
		delete(b.offered, id)
		b.print("%s %s is gone", b.paint(console.Yellow, "○"), console.Safe(id))
	}
	for _, k := range c.Kept {
		b.print("%s %s not swapped, the build before goes on%s", b.paint(console.Red, "✗"), console.Safe(k.ID),
			b.paint(console.Dim, filesOf(c, k.ID)))
		b.showReason(k.Reason, k.Evidence)
		b.broken[k.ID] = true
	}
	for _, d := range s.Diagnostics {
		if len(s.Extensions) == 0 && d.Level != protocol.LevelInfo {
			b.showDiagnostic(d)
			shown = true
		}
	}
	if !shown && len(b.broken) == 0 {
		b.print("%s", b.paint(console.Dim, "↻ nothing changes"))
	}
	b.showFixed(c.Kept)
}

// showFixed prints the extensions whose saves could not run before and can now.
func (b *builds) showFixed(kept []status.KeptBuild) {
	for id := range b.broken {
		if !slices.ContainsFunc(kept, func(k status.KeptBuild) bool { return k.ID == id }) {
			delete(b.broken, id)
			b.print("%s %s is fixed: the saved build runs", b.paint(console.Green, "●"), console.Safe(id))
		}
	}
}

// showSwapped prints how a save changed an extension. It reports whether it printed a change that r does not contain: a
// new reason for which the extension is skipped.
func (b *builds) showSwapped(x status.Extension, r exthost.Reloaded) bool {
	changed := slices.Contains(r.Change.Changed, x.ID)
	switch {
	case x.LeftOut() && b.skipped[x.ID] != x.Reason:
		b.showExtension(x, "")
		return true
	case changed && b.broken[x.ID] && len(b.offered[x.ID].tools) == 0: // its first working build
		b.showExtension(x, "ready in "+console.Span(r.Took))
	case changed:
		b.print("%s %s swapped in %s%s", b.paint(console.Green, "↻"), console.Safe(x.ID), console.Span(r.Took),
			b.paint(console.Dim, filesOf(r.Change, x.ID)))
		b.showChange(x.ID)
		delete(b.broken, x.ID)
	}
	return false
}

// filesOf returns the saved files of an extension, such as " (main.py)".
func filesOf(c *status.Change, id string) string {
	var names []string
	for _, file := range c.Files {
		if name, ok := strings.CutPrefix(file, id+"/"); ok {
			names = append(names, console.Safe(name))
		}
	}
	if names == nil {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// showChange prints how the tools of the new build differ from the last ones.
func (b *builds) showChange(id string) {
	before, now := b.offered[id], b.offerOf(id)
	b.offered[id] = now
	for _, change := range tools.Diff(before.tools, now.tools) {
		line := change.String()
		switch change.Field {
		case "":
			if change.Old == "" {
				line = "+ " + toolcall.Signature(change.Tool, now.params[change.Tool])
			} else {
				line = "- " + toolcall.Signature(change.Tool, before.params[change.Tool])
			}
		case "inputSchema":
			if diff := toolcall.DiffParams(before.params[change.Tool], now.params[change.Tool]); len(diff) > 0 {
				line = change.Tool + ": " + strings.Join(diff, ", ")
			}
		}
		b.print("    %s", console.Safe(line))
	}
}

// patient removes the default time limits: a debugger takes long. Limits in the manifest stay.
func patient(r manifest.Runtime) manifest.Runtime {
	never, soon, again := manifest.Duration(0), manifest.Duration(100*time.Millisecond), -1
	r.Activation = manifest.ActivationEager
	r.StartTimeout, r.CallTimeout, r.MaxCallTimeout = &never, &never, &never
	r.Restart.MaxAttempts, r.Restart.BaseBackoff, r.Restart.MaxBackoff = &again, &soon, &soon
	return r
}

// attachTick is the interval at which a session looks for attached extensions.
const attachTick = 100 * time.Millisecond

// awaitAttached prints extensions when they are attached. It restarts those whose handshake failed, so that they can be
// attached again.
func (b *builds) awaitAttached(ctx context.Context) {
	tick := time.NewTicker(attachTick)
	defer tick.Stop()
	shown := map[string]time.Time{} // start time of the process that was last shown, by id
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, x := range b.host.Status().Extensions {
			b.showAttached(ctx, x, shown)
		}
	}
}

func (b *builds) showAttached(ctx context.Context, x status.Extension, shown map[string]time.Time) {
	switch {
	case x.State == string(supervisor.Failed):
		b.say("%s %s: %s", b.paint(console.Red, "✗"), console.Safe(x.ID), console.Safe(x.Reason))
		restarting, cancel := context.WithTimeout(ctx, attachTick) // the restart goes on after the timeout
		defer cancel()
		_ = b.host.Admin().Restart(restarting, x.ID)
	case x.State == string(supervisor.Ready) && len(x.Instances) > 0 && shown[x.ID] != x.Instances[0].StartedAt:
		_, again := shown[x.ID]
		shown[x.ID] = x.Instances[0].StartedAt
		b.mu.Lock()
		defer b.mu.Unlock()
		if again {
			b.print("%s %s is attached again", b.paint(console.Green, "●"), console.Safe(x.ID))
			b.showChange(x.ID)
		} else {
			b.showExtension(x, "attached")
		}
	case x.LeftOut() && shown[x.ID].IsZero():
		shown[x.ID] = time.Now()
		b.say("%s %s is %s: %s", b.paint(console.Red, "✗"), console.Safe(x.ID), x.State, console.Safe(x.Reason))
	}
}
