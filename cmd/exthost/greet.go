package main

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// greet tells on stderr what runs, what does not and why, what the tools cost,
// and how to connect: to a person on a terminal, else in one line of the log.
func (a *app) greet(h *exthost.Host, f front, took time.Duration, log *slog.Logger) {
	defer a.greeted.Store(true)
	s := h.Status()
	log.Debug("extensions are held", "by", s.Containment.Holds, "not_by", s.Containment.Lacks)
	if !a.greets {
		a.logGreeting(h, f, s, took, log)
		return
	}
	g := greeting{a: a, width: min(cmp.Or(width(a.err), 80), 120), brief: len(h.Tools().Entries()) > manyTools}
	fmt.Fprintf(&g.b, "%s %s\n\n", a.paint(bold, "exthost"), s.Version)
	for _, x := range s.Extensions {
		g.longest = max(g.longest, len(x.ID))
	}
	for _, d := range s.Destinations {
		g.longest = max(g.longest, len(d.ID))
	}
	for _, x := range s.Extensions {
		g.extension(x, h.Tools().Extension(x.ID), s.Diagnostics)
	}
	g.destinations(s, f)
	g.manifests(s)
	if len(s.Extensions)+len(s.Destinations) == 0 {
		g.text("  ", "No extension was found. An extension is a folder with a plugin.toml below ./extensions; exthost init NAME --lang python writes one, exthost config show says where else they are looked for.")
	}
	g.summary(s, h.Tools().Entries(), took)
	g.clients(f)
	_, _ = a.err.Write(g.b.Bytes()) // at once, so that no log line comes between
}

func (a *app) logGreeting(h *exthost.Host, f front, s status.Status, took time.Duration, log *slog.Logger) {
	count := map[string]int{}
	for _, x := range s.Extensions {
		count[x.State]++
	}
	url := "stdio"
	if f.url != "" {
		url = f.url + "/mcp"
		log = log.With("dashboard", f.url+"/ui/", "token_file", f.operator.file)
	}
	log.Info("serving", "at", url, "version", s.Version, "extensions", len(s.Extensions), "skipped", count[status.StateSkipped],
		"failed", count[string(supervisor.Failed)], "tools", len(h.Tools().Entries()), "tokens", tokens(h.Tools().Entries()),
		"after", took.Round(time.Millisecond).String())
}

// greeting is what a person is told, as it is put together.
type greeting struct {
	a       *app
	b       bytes.Buffer
	width   int
	longest int  // id
	brief   bool // not every tool is shown
}

// summary says how much of it runs and what that costs.
func (g *greeting) summary(s status.Status, entries []*tools.Entry, took time.Duration) {
	run, starting := 0, 0
	for _, x := range s.Extensions {
		switch x.State {
		case string(supervisor.Ready), string(supervisor.Idle):
			run++
		case string(supervisor.Spawning):
			starting++
		}
	}
	fmt.Fprintf(&g.b, "\n%d of %s running: %s, ~%s tokens of every model request\n", run, plural(s.Extensions, "extension"),
		plural(entries, "tool"), thousands(tokens(entries)))
	if starting > 0 {
		fmt.Fprintf(&g.b, "%d still starting after %s, ", starting, took.Round(time.Second))
	} else {
		fmt.Fprintf(&g.b, "ready after %s, ", took.Round(time.Millisecond))
	}
}

// extension says on one line who it is and what it gives or lacks, and below
// that the details.
func (g *greeting) extension(x status.Extension, entries []*tools.Entry, diags []protocol.Diagnostic) {
	mark, what := g.a.paint(green, "●"), plural(entries, "tool")
	switch {
	case x.State == status.StateDisabled:
		mark, what = g.a.paint(dim, "○"), x.State
	case x.State == status.StateSkipped:
		mark, what = g.a.paint(yellow, "○"), "skipped"
	case x.State == string(supervisor.Spawning):
		mark, what = g.a.paint(yellow, "◌"), "still starting"
	case x.State == string(supervisor.Idle) && x.Transport != manifest.KindExec:
		what += ", lazy"
	case x.State == string(supervisor.Idle):
	case x.State != string(supervisor.Ready):
		mark, what = g.a.paint(red, "✗"), x.State
	}
	if len(entries) > 0 {
		what = fmt.Sprintf("%-9s ~%s tokens%s", plural(entries, "tool"), thousands(tokens(entries)), strings.TrimPrefix(what, plural(entries, "tool")))
	}
	fmt.Fprintf(&g.b, "  %s %-*s  %-8s %-12s  %s\n", mark, g.longest, x.ID, x.Version, runsAs(x), what)
	if x.State == status.StateDisabled {
		return
	}
	g.tools(entries)
	if x.State != string(supervisor.Ready) && x.Reason != "" {
		g.text("      ", x.Reason)
	}
	for _, words := range lastWords(evidence(x)) {
		fmt.Fprintf(&g.b, "      %s\n", g.a.paint(dim, cut(safe(strings.TrimSpace(words)), g.width-6)))
	}
	for _, d := range diags {
		if !concerns(d, x) || d.Level == protocol.LevelInfo {
			continue
		}
		if !said(x, d) {
			g.text("      "+g.a.paint(yellow, "!")+" ", d.Message)
		}
		if d.Hint != "" {
			g.text("      → ", d.Hint)
		}
	}
	for _, name := range x.EnvPassedSecrets {
		g.text("      "+g.a.paint(yellow, "!")+" ", "is given the secret "+name+", which its manifest asks for")
	}
}

const (
	manyTools = 50 // in all, beyond which
	toolLines = 3  // is how many lines those of one extension may take
)

// tools lists the tools of one extension, each with its cost.
func (g *greeting) tools(entries []*tools.Entry) {
	items := make([]string, len(entries))
	for i, e := range entries {
		items[i] = fmt.Sprintf("%s %d", strings.ReplaceAll(safe(e.Tool), " ", "_"), e.Tokens())
	}
	const indent, more = 6, " · and %d more: exthost tools list"
	lines, shown := 0, 0
	for shown < len(items) {
		room := g.width - indent
		last := g.brief && lines == toolLines-1
		if last {
			room -= len(more) + 2
		}
		n := fill(items[shown:], room)
		line := strings.Join(items[shown:shown+n], " · ")
		shown, lines = shown+n, lines+1
		if last && shown < len(items) {
			line += fmt.Sprintf(more, len(items)-shown)
			shown = len(items)
		}
		fmt.Fprintf(&g.b, "%*s%s\n", indent, "", g.a.paint(dim, line))
	}
}

// fill is how many of the items, joined, fit into room; at least one.
func fill(items []string, room int) int {
	used := 0
	for i, item := range items {
		used += len([]rune(item)) + len(" · ")
		if i > 0 && used-len(" · ") > room {
			return i
		}
	}
	return len(items)
}

// text writes a paragraph of third-party text behind a prefix of visible
// characters and colours.
func (g *greeting) text(prefix, text string) {
	columns := len([]rune(uncoloured.Replace(prefix)))
	for _, line := range wrap(safe(text), g.width-columns) {
		fmt.Fprintf(&g.b, "%s%s\n", prefix, line)
		prefix = strings.Repeat(" ", columns)
	}
}

var uncoloured = strings.NewReplacer("\x1b["+string(yellow)+"m", "", "\x1b["+string(red)+"m", "", "\x1b[0m", "")

// destinations says where each is reached, or why it is not.
func (g *greeting) destinations(s status.Status, f front) {
	for _, d := range s.Destinations {
		mark, where := g.a.paint(green, "●"), f.url+"/"+d.ID+"/mcp"
		switch {
		case d.State == string(supervisor.Failed):
			mark, where = g.a.paint(red, "✗"), "a destination that cannot run"
		case f.url == "":
			mark, where = g.a.paint(yellow, "○"), "a destination, served over HTTP alone: exthost serve"
		}
		fmt.Fprintf(&g.b, "  %s %-*s  %-8s %s\n", mark, g.longest, d.ID, d.Transport, where)
		if d.State == string(supervisor.Failed) {
			g.text("      ", d.Reason)
		}
	}
}

// manifests says what is wrong with files that became no extension.
func (g *greeting) manifests(s status.Status) {
	for _, d := range unlisted(s) {
		c, mark := yellow, "!"
		if d.Level == protocol.LevelError {
			c, mark = red, "✗"
		}
		g.text("  "+g.a.paint(c, mark)+" ", nearby(d).String())
	}
}

func tokens(entries []*tools.Entry) int {
	sum := 0
	for _, e := range entries {
		sum += e.Tokens()
	}
	return sum
}

func plural[T any](things []T, noun string) string {
	if len(things) == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", len(things), noun)
}

// thousands writes 12345 as 12,345.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
