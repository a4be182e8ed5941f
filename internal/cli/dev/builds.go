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

	offered map[string]offer
	broken  map[string]bool   // ids of extensions whose latest save cannot run
	skipped map[string]string // the reason that was last shown, by id
}

// offer holds the tools of an extension when they were last shown.
type offer struct {
	tools  []protocol.Tool
	params map[string][]toolcall.Param // by tool
}

func (b *builds) offerOf(id string) offer {
	o := offer{params: map[string][]toolcall.Param{}}
	for _, e := range b.host.Tools().Extension(id) {
		o.tools = append(o.tools, protocol.Tool{Name: e.Tool, Raw: e.Descriptor})
		o.params[e.Tool] = toolcall.Params(e.InputSchema)
	}
	return o
}

// several reports whether there is more than one extension, so that lines must name theirs.
func (b *builds) several() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.offered) > 1
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
		b.print("there is no %s in %s; it starts when there is one", manifest.FileName, console.Safe(b.dir))
	}
	b.print("%s", b.paint(console.Dim,
		fmt.Sprintf("watching %s; help helps, ctrl-d ends", console.Safe(console.NearbyPath(b.dir)))))
}

// showExtension prints an extension that has started, with how at the end of the line, or why it has not started. The
// caller holds mu.
func (b *builds) showExtension(x status.Extension, how string) {
	b.offered[x.ID] = b.offerOf(x.ID)
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
	b.print("%s%s", b.paint(c, "✗ "), console.Safe(console.Nearby(d).String()))
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
