package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// offer is what an extension offered when it was shown last.
type offer struct {
	tools  []protocol.Tool
	params map[string][]param // by tool
}

func (d *dev) offerOf(id string) offer {
	o := offer{params: map[string][]param{}}
	for _, e := range d.host.Tools().Extension(id) {
		o.tools = append(o.tools, protocol.Tool{Name: e.Tool, Raw: e.Descriptor})
		o.params[e.Tool] = paramsOf(e.InputSchema)
	}
	return o
}

// welcome shows what has started and what has not.
func (d *dev) welcome(ctx context.Context, began time.Time) {
	if d.host.Ready(ctx) != nil {
		return
	}
	took := time.Since(began)
	s := d.host.Status()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range s.Extensions {
		d.showExtension(x, "ready in "+span(took))
	}
	for _, diag := range s.Diagnostics {
		if diag.Level != protocol.LevelInfo && diag.Code != string(protocol.DescriptorChanged) && !slices.ContainsFunc(s.Extensions, func(x status.Extension) bool { return said(x, diag) }) {
			d.showDiagnostic(diag)
		}
	}
	if len(s.Extensions) == 0 && len(s.Diagnostics) == 0 {
		fmt.Fprintf(d.out, "there is no %s in %s; it starts when there is one\n", "plugin.toml", safe(d.dir))
	}
	fmt.Fprintln(d.out, d.paint(dim, fmt.Sprintf("watching %s; help helps, ctrl-d ends", safe(nearbyPath(d.dir)))))
}

// showExtension shows how an extension has started, and how long that took.
func (d *dev) showExtension(x status.Extension, how string) {
	d.offered[x.ID] = d.offerOf(x.ID)
	switch x.State {
	case string(supervisor.Ready), string(supervisor.Idle):
		delete(d.broken, x.ID)
		line := fmt.Sprintf("%s %s %s %s, %s", d.paint(green, "●"), safe(x.ID), safe(x.Version), how, runsAs(x))
		if pid := pidOf(x); pid > 0 {
			line += fmt.Sprintf(", pid %d", pid)
		}
		fmt.Fprintln(d.out, line)
		for _, e := range d.host.Tools().Extension(x.ID) {
			d.showTool(e)
		}
	default:
		d.broken[x.ID] = true
		what := "does not run; it is tried again at the next save"
		if x.State == status.StateSkipped {
			what, d.skipped[x.ID] = "is skipped", x.Reason
		}
		fmt.Fprintf(d.out, "%s %s %s\n", d.paint(red, "✗"), safe(x.ID), what)
		d.showReason(x.Reason, evidence(x))
	}
}

func (d *dev) showTool(e *tools.Entry) {
	line := "    " + signature(e.Tool, paramsOf(e.InputSchema))
	room := width(d.app.out)
	if room > 0 {
		room -= len([]rune(line)) + 2
	}
	line = safe(line)
	if text := safe(ownDescription(e)); text != "" && (width(d.app.out) == 0 || room > leastRoom) {
		line += "  " + d.paint(dim, cut(text, room))
	}
	fmt.Fprintln(d.out, line)
}

// showReason shows why something does not run. What its process wrote to stderr has
// been shown as it came.
func (d *dev) showReason(reason string, e *protocol.Evidence) {
	for part := range strings.SplitSeq(reason, "\n") {
		room := 0
		if columns := width(d.app.out); columns > 0 {
			room = columns - 4
		}
		for _, line := range wrap(safe(nearbyText(part)), room) {
			fmt.Fprintln(d.out, "    "+line)
		}
	}
	if e != nil && e.Line != "" {
		fmt.Fprintln(d.out, "    stdout: "+safe(e.Line))
	}
}

func (d *dev) showDiagnostic(diag protocol.Diagnostic) {
	c := yellow
	if diag.Level == protocol.LevelError {
		c = red
	}
	fmt.Fprintln(d.out, d.paint(c, "✗ ")+safe(nearby(diag).String()))
}

// reloaded shows what a save has led to.
func (d *dev) reloaded(r exthost.Reloaded) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Err != nil {
		fmt.Fprintln(d.out, d.paint(red, "✗ ")+"not reloaded, everything goes on as it was: "+safeText(message(r.Err)))
		return
	}
	c, s, shown := r.Change, d.host.Status(), !r.Change.Empty()
	for _, x := range s.Extensions {
		if slices.Contains(c.Added, x.ID) || slices.Contains(c.Retried, x.ID) {
			d.showExtension(x, "ready in "+span(r.Took))
		}
	}
	for _, x := range s.Extensions {
		switch changed := slices.Contains(c.Changed, x.ID); {
		case x.State == status.StateSkipped && d.skipped[x.ID] != x.Reason:
			d.showExtension(x, "")
			shown = true
		case changed && d.broken[x.ID] && len(d.offered[x.ID].tools) == 0: // nothing ran that could be swapped
			d.showExtension(x, "ready in "+span(r.Took))
		case changed:
			fmt.Fprintf(d.out, "%s %s swapped in %s%s\n", d.paint(green, "↻"), safe(x.ID), span(r.Took), d.paint(dim, filesOf(c, x.ID)))
			d.showChange(x.ID)
			delete(d.broken, x.ID)
		}
	}
	for _, id := range c.Removed {
		delete(d.offered, id)
		fmt.Fprintf(d.out, "%s %s is gone\n", d.paint(yellow, "○"), safe(id))
	}
	for _, k := range c.Kept {
		fmt.Fprintf(d.out, "%s %s not swapped, the build before goes on%s\n", d.paint(red, "✗"), safe(k.ID), d.paint(dim, filesOf(c, k.ID)))
		d.showReason(k.Reason, k.Evidence)
		d.broken[k.ID] = true
	}
	for _, diag := range s.Diagnostics {
		if len(s.Extensions) == 0 && diag.Level != protocol.LevelInfo {
			d.showDiagnostic(diag)
			shown = true
		}
	}
	if !shown && len(d.broken) == 0 {
		fmt.Fprintln(d.out, d.paint(dim, "↻ nothing changes"))
	}
	for id := range d.broken {
		if !slices.ContainsFunc(c.Kept, func(k status.KeptBuild) bool { return k.ID == id }) {
			delete(d.broken, id)
			fmt.Fprintf(d.out, "%s %s is mended: what runs is what is saved\n", d.paint(green, "●"), safe(id))
		}
	}
}

func message(err error) string {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// filesOf names what was saved: " (main.py)".
func filesOf(c *status.Change, id string) string {
	var names []string
	for _, file := range c.Files {
		if name, ok := strings.CutPrefix(file, id+"/"); ok {
			names = append(names, safe(name))
		}
	}
	if names == nil {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// showChange shows what the new build offers that the one before did not.
func (d *dev) showChange(id string) {
	before, now := d.offered[id], d.offerOf(id)
	d.offered[id] = now
	for _, change := range tools.Diff(before.tools, now.tools) {
		lines := []string{change.String()}
		switch change.Field {
		case "":
			if change.Old == "" {
				lines = []string{"+ " + signature(change.Tool, now.params[change.Tool])}
			} else {
				lines = []string{"- " + signature(change.Tool, before.params[change.Tool])}
			}
		case "inputSchema":
			if diff := diffParams(before.params[change.Tool], now.params[change.Tool]); len(diff) > 0 {
				lines = []string{change.Tool + ": " + strings.Join(diff, ", ")}
			}
		}
		for _, line := range lines {
			fmt.Fprintln(d.out, "    "+safe(line))
		}
	}
}

// showLog shows what extensions write to stderr, and unless only that is wanted, what
// the host has to say of them that reloads do not.
func (d *dev) showLog(ctx context.Context, only bool) {
	for r := range d.host.Admin().Logs(ctx, exthost.LogFilter{Level: slog.LevelDebug - 4, Follow: true}) {
		stderr := string(rawjson.Get(r.Attrs, "stream")) == `"stderr"`
		reported := rawjson.Get(r.Attrs, "code") != nil || strings.HasPrefix(r.Message, "not reloaded")
		if !stderr && (only || r.Level < slog.LevelWarn || reported) {
			continue
		}
		c, mark := dim, "│"
		switch {
		case r.Level >= slog.LevelError:
			c = red
		case r.Level >= slog.LevelWarn && !stderr:
			c, mark = yellow, "!"
		}
		text := r.Message
		for key, value := range rawjson.Members(r.Attrs) {
			if !stderr {
				text += fmt.Sprintf(" %s=%s", key, value)
			}
		}
		d.say("%s %s", d.paint(c, r.Extension+" "+mark), safe(text))
	}
}
