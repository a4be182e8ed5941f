package serve

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// greet prints on stderr which extensions run, why others do not, what the tools cost in tokens, and how to connect.
func greet(c *console.Console, h *exthost.Host, f front, took time.Duration) {
	s := h.Status()
	g := greeting{c: c, width: min(cmp.Or(console.Width(c.Err), 80), 120), brief: len(h.Tools().Entries()) > manyTools}
	fmt.Fprintf(&g.b, "%s %s\n\n", c.Paint(console.Bold, "exthost"), s.Version)
	for _, x := range s.Extensions {
		g.longest = max(g.longest, min(len(x.ID), alignedID))
	}
	for _, d := range s.Destinations {
		g.longest = max(g.longest, min(len(d.ID), alignedID))
	}
	for _, x := range s.Extensions {
		g.extension(x, h.Tools().Extension(x.ID), s.Diagnostics)
	}
	g.destinations(s, f)
	g.manifests(s)
	if len(s.Extensions)+len(s.Destinations) == 0 {
		g.text("  ", "No extension was found. An extension is a folder with a plugin.toml below ./extensions; "+
			"exthost init NAME --lang python writes one, exthost config show says where else they are looked for.")
	}
	if s.Trust == config.TrustOff {
		g.text("  "+g.c.Paint(console.Yellow, "!")+" ", hosts.TrustsAll)
	}
	shown, hidden := h.Offered("")
	g.summary(s, shown, len(hidden), took)
	g.clients(f)
	_, _ = c.Err.Write(g.b.Bytes()) // in one write, so that no log line comes between
}

// alignedID is the length of the longest id that the columns are aligned to.
const alignedID = 24

// greeting is the text of greet while it is composed.
type greeting struct {
	c       *console.Console
	b       bytes.Buffer
	width   int
	longest int  // longest id, at most alignedID
	brief   bool // shows only some tools of each extension
}

// summary counts the extensions that run, and the tokens of the tools that an anonymous caller sees.
func (g *greeting) summary(s status.Status, entries []*tools.Entry, hidden int, took time.Duration) {
	run, onDemand, starting := 0, 0, 0
	for _, x := range s.Extensions {
		switch x.State {
		case string(supervisor.Ready):
			run++
		case string(supervisor.Idle):
			onDemand++
		case string(supervisor.Spawning):
			starting++
		}
	}
	lazy := ""
	if onDemand > 0 {
		lazy = fmt.Sprintf(", %d lazy", onDemand)
	}
	g.b.WriteByte('\n')
	g.text("", fmt.Sprintf("%d of %s running%s: %s, ~%s tokens of every model request", run,
		console.Plural(len(s.Extensions), "extension"), lazy,
		console.Plural(len(entries), "tool"), console.Thousands(hosts.Tokens(entries))))
	if hidden > 0 {
		g.text("", fmt.Sprintf("policies hide %s from anonymous callers", console.Plural(hidden, "more tool")))
	}
	if starting > 0 {
		fmt.Fprintf(&g.b, "%d still starting after %s, ", starting, took.Round(time.Second))
	} else {
		fmt.Fprintf(&g.b, "%s after %s, ", readyOrNot(s), took.Round(time.Millisecond))
	}
}

// readyOrNot returns the greeting's word for a host that has started.
func readyOrNot(s status.Status) string {
	if len(s.Obstacles()) > 0 {
		return "not ready"
	}
	return "ready"
}

// extension writes a line about an extension, and details below.
func (g *greeting) extension(x status.Extension, entries []*tools.Entry, diags []protocol.Diagnostic) {
	mark, state := g.c.Paint(console.Green, "●"), ""
	switch {
	case x.State == status.StateDisabled:
		mark, state = g.c.Paint(console.Dim, "○"), x.State
	case x.LeftOut():
		mark, state = g.c.Paint(console.Yellow, "○"), x.State
	case x.State == string(supervisor.Spawning):
		mark, state = g.c.Paint(console.Yellow, "◌"), "still starting"
	case x.State == string(supervisor.Idle):
		state = "lazy"
	case x.State != string(supervisor.Ready):
		mark, state = g.c.Paint(console.Red, "✗"), x.State
	}
	what := cmp.Or(state, console.Plural(0, "tool"))
	if len(entries) > 0 {
		what = fmt.Sprintf("%-9s ~%s tokens", console.Plural(len(entries), "tool"),
			console.Thousands(hosts.Tokens(entries)))
		if state != "" {
			what += ", " + state
		}
	}
	g.item(mark, fmt.Sprintf("%-*s  %-8s %-12s  %s", g.longest, x.ID, x.Version, hosts.RunsAs(x), what))
	if x.State == status.StateDisabled {
		return
	}
	g.tools(entries)
	g.faults(x, diags)
	g.rights(x)
}

// faults writes why an extension does not run, and the errors in its manifest.
func (g *greeting) faults(x status.Extension, diags []protocol.Diagnostic) {
	if x.State != string(supervisor.Ready) && x.Reason != "" {
		g.text("      ", x.Reason)
	}
	for _, words := range console.LastWords(hosts.Evidence(x)) {
		for _, line := range console.Hang("      "+console.Cut(console.Safe(strings.TrimSpace(words)), maxWords),
			g.width) {
			fmt.Fprintln(&g.b, g.c.Paint(console.Dim, line))
		}
	}
	for _, d := range diags {
		if !hosts.Concerns(d, x) || d.Level == protocol.LevelInfo {
			continue
		}
		if !hosts.Said(x, d) {
			g.warn(d.Message)
		}
		if d.Hint != "" {
			g.text("      → ", d.Hint)
		}
	}
}

// rights writes what an extension may do that others may not, and what its sandbox lacks.
func (g *greeting) rights(x status.Extension) {
	if x.Sandbox != nil && len(x.Sandbox.Lacks) == 0 {
		g.text("      ", x.Sandbox.String())
	} else if x.Sandbox != nil {
		g.warn(x.Sandbox.String())
	}
	if x.HooksSee == config.HooksAll {
		g.warn("its hooks see and change the calls of all extensions: extensions.entries." + x.ID + ".hooks")
	}
	for _, name := range x.EnvPassedSecrets {
		g.warn("is given the secret " + name + ", which its manifest asks for")
	}
}

// warn writes a detail that deserves attention.
func (g *greeting) warn(text string) { g.text("      "+g.c.Paint(console.Yellow, "!")+" ", text) }

// maxWords is how much of an output line of a failed process is shown, in characters.
const maxWords = 240

const (
	manyTools = 50 // number of tools above which the greeting is brief
	toolLines = 3  // lines of tools of one extension in a brief greeting
)

func (g *greeting) tools(entries []*tools.Entry) {
	items := make([]string, len(entries))
	for i, e := range entries {
		items[i] = fmt.Sprintf("%s %d", strings.ReplaceAll(console.Safe(e.Tool), " ", "_"), e.Tokens())
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
		fmt.Fprintf(&g.b, "%*s%s\n", indent, "", g.c.Paint(console.Dim, line))
	}
}

// fill returns how many items fit into room when joined; at least one.
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

// text writes a paragraph of third-party text after a prefix, which may be coloured.
func (g *greeting) text(prefix, text string) {
	columns := console.Columns(prefix)
	for _, line := range console.Wrap(console.Safe(text), g.width-columns) {
		fmt.Fprintf(&g.b, "%s%s\n", prefix, line)
		prefix = strings.Repeat(" ", columns)
	}
}

// item writes the line of an extension or a destination, in columns if they fit.
func (g *greeting) item(mark, line string) {
	if prefix := "  " + mark + " "; console.Columns(prefix+line) > g.width {
		g.text(prefix, line)
	} else {
		g.b.WriteString(prefix + line + "\n")
	}
}

// destinations writes a line for each destination, with its address or why it has none.
func (g *greeting) destinations(s status.Status, f front) {
	for _, d := range s.Destinations {
		mark, where := g.c.Paint(console.Green, "●"), f.url+"/"+d.ID+"/mcp"
		switch {
		case d.State == string(supervisor.Failed):
			mark, where = g.c.Paint(console.Red, "✗"), "a destination that cannot run"
		case f.url == "":
			mark, where = g.c.Paint(console.Yellow, "○"), "a destination, served over HTTP alone: exthost serve"
		}
		g.item(mark, fmt.Sprintf("%-*s  %-8s %s", g.longest, d.ID, d.Transport, where))
		if d.State == string(supervisor.Failed) {
			g.text("      ", d.Reason)
		}
	}
}

// manifests writes the faults of files that became no extension.
func (g *greeting) manifests(s status.Status) {
	for _, d := range hosts.Unlisted(s) {
		colour, mark := console.Yellow, "!"
		if d.Level == protocol.LevelError {
			colour, mark = console.Red, "✗"
		}
		g.text("  "+g.c.Paint(colour, mark)+" ", console.Nearby(d).String())
	}
}

// clients writes how to connect common clients, as commands and files to copy.
func (g *greeting) clients(f front) {
	if f.url == "" {
		fmt.Fprintf(&g.b, "serving one MCP client on stdin and stdout\n")
		return
	}
	url := f.url + "/mcp"
	fmt.Fprintf(&g.b, "serving %s\n", g.c.Paint(console.Bold, url))
	if len(f.clients) > 0 {
		g.text("", "to "+some(f.clients)+", each with its token, below in $"+f.token)
	}
	if f.exposed && len(f.clients) == 0 {
		fmt.Fprintf(&g.b, "to other machines too, with the token, below in $%s\n", f.token)
	} else if f.exposed {
		fmt.Fprintln(&g.b, "to other machines too")
	}
	if f.anyone {
		fmt.Fprintln(&g.b, "to every user of this machine: there is no token")
	}
	if f.exposed && strings.HasPrefix(f.url, "http://") {
		fmt.Fprintf(&g.b, "%s\n",
			g.c.Paint(console.Yellow,
				"without TLS: who is on the way reads the tokens of clients and their calls; state server.tls"))
	}
	fmt.Fprintln(&g.b)
	for _, c := range clientSetups(url, f.token) {
		fmt.Fprintf(&g.b, "  %s%s\n      %s\n", c.name, g.c.Paint(console.Dim, c.where), c.what)
	}
	fmt.Fprintf(&g.b, "\ndashboard %s\n", g.c.Paint(console.Bold, f.url+"/ui/#token="+f.operator.text))
	fmt.Fprintln(&g.b, "\nCtrl-C stops everything.")
}

// mostNames is how many names a line lists.
const mostNames = 10

// some joins the first names of a list, and counts the rest.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), mostNames)], ", ")
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// clientSetup is how to connect one client to the server.
type clientSetup struct {
	name, where, what string // where is "" for a command, else ", in FILE"
}

// clientSetups returns settings that name the variable with the token, never the token.
func clientSetups(url, tokenEnv string) []clientSetup {
	claude := "claude mcp add --transport http exthost " + url
	codex := "codex mcp add exthost --url " + url
	headers := ""
	if tokenEnv != "" {
		claude += fmt.Sprintf(` --header "Authorization: Bearer $%s"`, tokenEnv)
		codex += " --bearer-token-env-var " + tokenEnv
		headers = fmt.Sprintf(`,"headers":{"Authorization":"Bearer ${env:%s}"}`, tokenEnv)
	}
	return []clientSetup{
		{"Claude Code", "", claude},
		{"Codex", "", codex},
		{"Cursor", ", in .cursor/mcp.json", fmt.Sprintf(`{"mcpServers":{"exthost":{"url":%q%s}}}`, url, headers)},
		{"VS Code", ", in .vscode/mcp.json",
			fmt.Sprintf(`{"servers":{"exthost":{"type":"http","url":%q%s}}}`, url, headers)},
	}
}
