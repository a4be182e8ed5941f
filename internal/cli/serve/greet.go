package serve

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
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

// greet prints on stderr which extensions run, why others do not, whether calls pass, what the tools cost in tokens,
// and how to connect.
func greet(c *console.Console, h *exthost.Host, f front, took time.Duration) {
	g := newGreeting(c)
	g.front, g.took = f, took
	_, _ = c.Err.Write(g.fit(h, console.Height(c.Err))) // in one write, so that no log line comes between
}

// judge prints on stderr whether calls pass, as greet does.
func judge(c *console.Console, h *exthost.Host) {
	g, s := newGreeting(c), h.Admin().Status()
	g.verdict(&s)
	_, _ = c.Err.Write(g.b.Bytes())
}

func newGreeting(c *console.Console) *greeting {
	return &greeting{c: c, width: min(cmp.Or(console.Width(c.Err), 80), 120)}
}

// fit returns the text with the most detail that a terminal of so many lines shows without scrolling; 0 is no limit.
func (g *greeting) fit(h *exthost.Host, height int) []byte {
	s := h.Admin().Status()
	for g.detail = range names + 1 {
		g.b.Reset()
		g.compose(h, &s)
		if height == 0 || bytes.Count(g.b.Bytes(), []byte("\n")) < height { // the last line is for what comes next
			break
		}
	}
	return g.b.Bytes()
}

// detail is how much a greeting says about each extension.
type detail int

const (
	withTools  detail = iota // its tools, and all about its faults
	withFaults               // all about its faults
	inLine                   // a line
	names                    // its name, beside those of the same state
)

// detailIndent is the indent of what is said below the line of an extension.
const detailIndent = "      "

// alignedID is the length of the longest id that the columns are aligned to.
const alignedID = 24

// greeting composes the text that greet prints.
type greeting struct {
	c       *console.Console
	front   front
	took    time.Duration
	b       bytes.Buffer
	width   int
	detail  detail
	longest int     // longest id, at most alignedID
	unsaid  int     // warnings that there is no room for
	groups  []group // with names alone: in the order of the first of each
}

// group is what has the same state.
type group struct {
	mark, state string
	names       []string
}

func (g *greeting) compose(h *exthost.Host, s *status.Status) {
	g.unsaid, g.groups = 0, nil
	fmt.Fprintf(&g.b, "%s %s\n\n", g.c.Paint(console.Bold, "exthost"), s.Version)
	for _, x := range s.Extensions {
		g.longest = max(g.longest, min(len(x.ID), alignedID))
	}
	for _, d := range s.Destinations {
		g.longest = max(g.longest, min(len(d.ID), alignedID))
	}
	for _, x := range s.Extensions {
		g.extension(x, h.Tools().Extension(x.ID), s.Diagnostics)
	}
	g.destinations(s)
	g.together()
	g.manifests(s)
	if len(s.Extensions)+len(s.Destinations) == 0 {
		g.text("  ", "No extension was found. An extension is a folder with a plugin.toml below ./extensions; "+
			"exthost init NAME --lang python writes one, exthost config show says where else they are looked for.")
	}
	if n := g.unsaid; n > 0 {
		g.warn("  ", console.Plural(n, "warning")+" about extensions, which exthost status ID shows")
	}
	if s.Trust == config.TrustOff {
		g.warn("  ", hosts.TrustsAll)
	}
	g.verdict(s)
	g.cost(h)
	g.serving(s)
	g.connecting()
}

// verdict writes whether calls pass.
func (g *greeting) verdict(s *status.Status) {
	g.b.WriteByte('\n')
	word := string(s.Verdict.Word)
	for i, line := range console.Wrap(hosts.Sentence(s.Verdict), g.width) {
		if rest, ok := strings.CutPrefix(line, word); ok && i == 0 {
			line = g.c.Paint(hosts.ColourOf(s.Verdict.Word), word) + rest
		}
		g.b.WriteString(line + "\n")
	}
}

// cost writes how many tokens the tools add to each request, as an anonymous caller sees them.
func (g *greeting) cost(h *exthost.Host) {
	shown, hidden := h.Offered("")
	text := fmt.Sprintf("%s, ~%s tokens of every model request", console.Plural(len(shown), "tool"),
		console.Thousands(hosts.Tokens(shown)))
	if len(hidden) > 0 {
		text += fmt.Sprintf("; policies hide %s from anonymous callers", console.Plural(len(hidden), "more tool"))
	}
	g.text("", text)
}

// state returns the mark and the word for the state of an extension; the word is "" for one that runs.
func (g *greeting) state(x *status.Extension) (mark, word string) {
	switch {
	case x.State == status.StateDisabled:
		return g.c.Paint(console.Dim, "○"), x.State
	case x.LeftOut():
		return g.c.Paint(console.Yellow, "○"), x.State
	case x.State == string(supervisor.Spawning):
		return g.c.Paint(console.Yellow, "◌"), "still starting"
	case x.State == string(supervisor.Idle):
		return g.c.Paint(console.Green, "●"), "lazy"
	case x.State != string(supervisor.Ready):
		return g.c.Paint(console.Red, "✗"), x.State
	}
	return g.c.Paint(console.Green, "●"), ""
}

// extension writes a line about an extension, and details below.
func (g *greeting) extension(x status.Extension, entries []*tools.Entry, diags []protocol.Diagnostic) {
	mark, state := g.state(&x)
	if g.detail >= inLine && x.State != status.StateDisabled {
		g.unsaid += len(warnings(x))
	}
	if g.detail == names {
		g.group(mark, cmp.Or(state, "running"), x.ID)
		return
	}
	what := cmp.Or(state, console.Plural(0, "tool"))
	if len(entries) > 0 {
		what = fmt.Sprintf("%-9s ~%s tokens", console.Plural(len(entries), "tool"),
			console.Thousands(hosts.Tokens(entries)))
		if state != "" {
			what += ", " + state
		}
	}
	if g.detail == inLine && x.Reason != "" && x.State != string(supervisor.Ready) {
		what += ": " + x.Reason
	}
	runsAs, _, _ := strings.Cut(hosts.RunsAs(x), " ") // without the revision, for which there is no room
	g.item(mark, fmt.Sprintf("%-*s  %-8s %-12s  %s", g.longest, x.ID, x.Version, runsAs, what))
	if x.State == status.StateDisabled || g.detail == inLine {
		return
	}
	if g.detail == withTools {
		g.tools(entries)
	}
	g.faults(x, diags)
	g.rights(x)
}

// group adds a name to those of the same state.
func (g *greeting) group(mark, state, name string) {
	at := slices.IndexFunc(g.groups, func(k group) bool { return k.state == state })
	if at < 0 {
		at, g.groups = len(g.groups), append(g.groups, group{mark: mark, state: state})
	}
	g.groups[at].names = append(g.groups[at].names, name)
}

// groupLines is how many lines each group has at most.
const groupLines = 2

// together writes the groups.
func (g *greeting) together() {
	for _, k := range g.groups {
		prefix := "  " + k.mark + " "
		title := fmt.Sprintf("%d %s:", len(k.names), k.state)
		room := groupLines*(g.width-console.Columns(prefix)) - len(title) - alignedID // lines end between words
		shown := 0
		for shown < len(k.names) && room > 0 {
			room -= len(k.names[shown]) + len(", ")
			shown++
		}
		text := title + " " + strings.Join(k.names[:shown], ", ")
		if more := len(k.names) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		g.text(prefix, text)
	}
	if len(g.groups) > 0 {
		g.text("    ", "exthost status says more about each")
	}
}

// faults writes why an extension does not run, and the errors in its manifest.
func (g *greeting) faults(x status.Extension, diags []protocol.Diagnostic) {
	if x.State != string(supervisor.Ready) && x.Reason != "" {
		g.text(detailIndent, x.Reason)
	}
	for _, words := range console.LastWords(hosts.Evidence(x)) {
		for _, line := range console.Hang(detailIndent+console.Cut(console.Safe(strings.TrimSpace(words)), maxWords),
			g.width) {
			fmt.Fprintln(&g.b, g.c.Paint(console.Dim, line))
		}
	}
	for _, d := range diags {
		if !hosts.Concerns(d, x) || d.Level == protocol.LevelInfo {
			continue
		}
		if !hosts.Said(x, d) {
			g.warn(detailIndent, d.Message)
		}
		if d.Hint != "" {
			g.text(detailIndent+"→ ", d.Hint)
		}
	}
}

// rights writes what confines an extension, and what it may do that others may not.
func (g *greeting) rights(x status.Extension) {
	if x.Sandbox != nil && len(x.Sandbox.Lacks) == 0 {
		g.text(detailIndent, x.Sandbox.String())
	}
	for _, text := range warnings(x) {
		g.warn(detailIndent, text)
	}
}

// warnings returns what an extension may do that others may not, and what its sandbox lacks.
func warnings(x status.Extension) (list []string) {
	if x.Sandbox != nil && len(x.Sandbox.Lacks) > 0 {
		list = append(list, x.Sandbox.String())
	}
	if x.HooksSee == config.HooksAll {
		list = append(list, "its hooks see and change the calls of all extensions: extensions.entries."+x.ID+".hooks")
	}
	for _, name := range x.EnvPassedSecrets {
		list = append(list, "is given the secret "+name+", which its manifest asks for")
	}
	return list
}

// warn writes a paragraph that deserves attention.
func (g *greeting) warn(indent, text string) { g.text(indent+g.c.Paint(console.Yellow, "!")+" ", text) }

// maxWords is how much of an output line of a failed process is shown, in characters.
const maxWords = 240

func (g *greeting) tools(entries []*tools.Entry) {
	items := make([]string, len(entries))
	for i, e := range entries {
		items[i] = fmt.Sprintf("%s %d", strings.ReplaceAll(console.Safe(e.Tool), " ", "_"), e.Tokens())
	}
	for len(items) > 0 {
		n := fill(items, g.width-len(detailIndent))
		fmt.Fprintf(&g.b, "%s%s\n", detailIndent, g.c.Paint(console.Dim, strings.Join(items[:n], " · ")))
		items = items[n:]
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
	prefix := "  " + mark + " "
	line = console.Safe(line)
	switch {
	case g.detail == inLine:
		line = console.Cut(line, g.width-console.Columns(prefix))
	case console.Columns(prefix+line) > g.width:
		g.text(prefix, line)
		return
	}
	g.b.WriteString(prefix + line + "\n")
}

// destinations writes a line for each destination, with its address or why it has none.
func (g *greeting) destinations(s *status.Status) {
	for _, d := range s.Destinations {
		mark, state, where := g.c.Paint(console.Green, "●"), "served", g.front.url+"/"+d.ID+"/mcp"
		switch {
		case d.State == string(supervisor.Failed):
			mark, state, where = g.c.Paint(console.Red, "✗"), d.State, "a destination that cannot run"
		case g.front.url == "":
			mark, state = g.c.Paint(console.Yellow, "○"), "not served"
			where = "a destination, served over HTTP alone: exthost serve"
		}
		if g.detail == names {
			g.group(mark, state, d.ID)
			continue
		}
		g.item(mark, fmt.Sprintf("%-*s  %-8s %s", g.longest, d.ID, d.Transport, where))
		if d.State == string(supervisor.Failed) && g.detail < inLine {
			g.text(detailIndent, d.Reason)
		}
	}
}

// manifests writes the faults of files that became no extension.
func (g *greeting) manifests(s *status.Status) {
	found := hosts.Unlisted(*s)
	if n := len(found); n > 1 && g.detail >= inLine {
		g.warn("  ", fmt.Sprintf("%d faults of files: exthost check", n))
		return
	}
	for _, d := range found {
		colour, mark := console.Yellow, "!"
		if d.Level == protocol.LevelError {
			colour, mark = console.Red, "✗"
		}
		g.text("  "+g.c.Paint(colour, mark)+" ", console.Nearby(d).String())
	}
}

// serving writes where the host serves, and whom.
func (g *greeting) serving(s *status.Status) {
	starting := 0
	for _, x := range s.Extensions {
		if x.State == string(supervisor.Spawning) {
			starting++
		}
	}
	began := fmt.Sprintf("started in %s", g.took.Round(time.Millisecond))
	if starting > 0 {
		began = fmt.Sprintf("%d still starting after %s", starting, g.took.Round(time.Second))
	}
	f := g.front
	if f.url == "" {
		fmt.Fprintf(&g.b, "%s, serving one MCP client on stdin and stdout\n", began)
		return
	}
	fmt.Fprintf(&g.b, "%s, serving %s\n", began, g.c.Paint(console.Bold, f.url+"/mcp"))
	to := ""
	switch {
	case len(f.clients) > 0:
		to = "to " + some(f.clients) + ", each with its token"
	case f.token != "":
		to = "to those who show the token in $" + f.token
	case f.anyone:
		to = "to every user of this machine: there is no token"
	}
	if f.exposed {
		to = strings.TrimPrefix(to+", from other machines too", ", ")
	}
	if to != "" {
		g.text("", to)
	}
	if f.exposed && strings.HasPrefix(f.url, "http://") {
		for _, line := range console.Wrap(
			"without TLS: who is on the way reads the tokens of clients and their calls; state server.tls", g.width) {
			g.b.WriteString(g.c.Paint(console.Yellow, line) + "\n")
		}
	}
}

// connecting writes how to connect a client, and how to watch and end the host.
func (g *greeting) connecting() {
	if g.front.url == "" {
		return
	}
	g.b.WriteByte('\n')
	g.text("", "exthost connect claude connects Claude Code; exthost connect lists the clients")
	fmt.Fprintf(&g.b, "dashboard %s\n", g.c.Paint(console.Bold, g.front.url+"/ui/#token="+g.front.operator.text))
	fmt.Fprintln(&g.b, "Ctrl-C stops everything.")
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
