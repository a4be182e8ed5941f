package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/cli/toolcall"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/manifest/agentplugin"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// builds prints how extensions start and how saves change them.
type builds struct {
	*screen // its mu guards the maps
	host    *exthost.Host
	dir     string

	shown   map[string]toolsShown
	broken  map[string]bool   // ids of extensions whose latest save cannot run
	skipped map[string]string // the reason that was last shown, by id
}

// toolsShown holds the tools of an extension when they were last shown.
type toolsShown struct {
	tools  []protocol.Tool
	params map[string][]toolcall.Param // by tool
}

func (b *builds) toolsOf(id string) toolsShown {
	o := toolsShown{params: map[string][]toolcall.Param{}}
	for _, e := range b.host.Tools().Extension(id) {
		o.tools = append(o.tools, protocol.Tool{Name: e.Tool, Raw: e.Descriptor})
		o.params[e.Tool] = toolcall.Params(e.InputSchema)
	}
	return o
}

// several reports whether there is more than one extension, so that lines must name the extension.
func (b *builds) several() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.shown) > 1
}

// welcome waits for the first start and prints its result.
func (b *builds) welcome(ctx context.Context, began time.Time) {
	if b.host.Ready(ctx) != nil {
		return
	}
	took := time.Since(began)
	s := b.host.Status()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range s.Extensions {
		b.showExtension(x, "ready in "+console.Span(took))
	}
	for _, d := range s.Diagnostics {
		if d.Level != protocol.LevelInfo && d.Code != string(protocol.DescriptorChanged) &&
			!slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return hosts.Said(x, d) }) {
			b.showDiagnostic(d)
		}
	}
	if len(s.Extensions) == 0 && len(s.Diagnostics) == 0 {
		b.print("there is no %s or %s in %s; it starts when there is one", manifest.FileName, agentplugin.FileName,
			console.Safe(b.dir))
	}
	b.print("%s", b.paint(console.Dim,
		fmt.Sprintf("watching %s; help helps, ctrl-d ends", console.Safe(console.NearbyPath(b.dir)))))
}

// showExtension prints an extension that has started, and how at the end of the line, or why it has not started. The
// caller holds mu.
func (b *builds) showExtension(x status.Extension, how string) {
	b.shown[x.ID] = b.toolsOf(x.ID)
	switch x.State {
	case string(supervisor.Ready), string(supervisor.Idle):
		delete(b.broken, x.ID)
		line := fmt.Sprintf("%s %s %s %s, %s", b.paint(console.Green, "●"), console.Safe(x.ID), console.Safe(x.Version),
			how, hosts.RunsAs(x))
		if pid := hosts.PID(x); pid > 0 {
			line += fmt.Sprintf(", pid %d", pid)
		}
		b.print("%s", line)
		for _, e := range b.host.Tools().Extension(x.ID) {
			b.showTool(e)
		}
	default:
		b.broken[x.ID] = true
		what := "does not run; it is tried again at the next save"
		if x.LeftOut() {
			what, b.skipped[x.ID] = "is "+x.State, x.Reason
		}
		b.print("%s %s %s", b.paint(console.Red, "✗"), console.Safe(x.ID), what)
		b.showReason(x.Reason, hosts.Evidence(x))
	}
}

func (b *builds) showTools() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.host.Tools().Entries() {
		b.showTool(e)
	}
}

func (b *builds) showTool(e *tools.Entry) {
	line := "    " + toolcall.Signature(e.Tool, toolcall.Params(e.InputSchema))
	room := b.width()
	narrow := false
	if room > 0 {
		room -= len([]rune(line)) + 2
		narrow = room <= console.LeastRoom
	}
	line = console.Safe(line)
	if text := console.Safe(hosts.Description(e.Description, e.Extension)); text != "" && !narrow {
		line += "  " + b.paint(console.Dim, console.Cut(text, room))
	}
	b.print("%s", line)
}

// showReason prints why something does not run, without its stderr lines, which showLog prints. The caller holds mu.
func (b *builds) showReason(reason string, e *protocol.Evidence) {
	for part := range strings.SplitSeq(reason, "\n") {
		for _, line := range console.Wrap(console.Safe(console.NearbyText(part)), max(b.width()-4, 0)) {
			b.print("    %s", line)
		}
	}
	if e != nil && e.Line != "" {
		b.print("    stdout: %s", console.Safe(e.Line))
	}
}

func (b *builds) showDiagnostic(d protocol.Diagnostic) {
	c := console.Yellow
	if d.Level == protocol.LevelError {
		c = console.Red
	}
	b.prose(b.paint(c, "✗ ") + console.Safe(console.Nearby(d).String()))
}

func (b *builds) showInfo() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.host.Admin().Status().Extensions {
		b.print("%s %s, %s, %d calls, %d failed, %d denied, state in %s", console.Safe(x.ID), x.State, hosts.RunsAs(x),
			x.Requests, x.Errors+x.ToolErrors, x.Denied, console.Safe(x.StateDir))
		if x.Reason != "" {
			b.print("    %s", console.Safe(x.Reason))
		}
		if c := x.LastCrash; c != nil {
			b.print("    last crash %s ago:", console.Span(time.Since(c.Time)))
			b.showReason(c.Reason, c.Evidence)
		}
	}
}

func message(err error) string {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// reloaded prints the result of a save.
func (b *builds) reloaded(r exthost.Reloaded) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Err != nil {
		b.prose(b.paint(console.Red, "✗ ") + "not reloaded, nothing changes: " + console.SafeText(message(r.Err)))
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
		delete(b.shown, id)
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
	case changed && b.broken[x.ID] && len(b.shown[x.ID].tools) == 0: // its first working build
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
	before, now := b.shown[id], b.toolsOf(id)
	b.shown[id] = now
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

// patient removes the default time limits, because a debugger may pause the extension for long. It keeps the limits
// that the manifest states.
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
