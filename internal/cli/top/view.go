//go:build !slim

package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/status"
)

// View implements [tea.Model].
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "exthost top"
	return v
}

// Bounds of the parts of the screen, in lines.
const (
	maxVerdict = 4
	maxCauses  = 4
	leastCalls = 3 // calls that are shown if there is room for all extensions
)

// stale is the age from which a status is said to be old: the host sends one every two seconds.
const stale = 5 * time.Second

// lines returns the screen: as many lines as it has at most, none longer than it is wide.
func (m *model) lines() []string {
	if m.width == 0 || m.height == 0 {
		return nil
	}
	head, foot := m.head(), m.foot()
	room := m.height - len(head) - 1
	var body []string
	switch {
	case m.shows == keys:
		body = helpLines()
	case m.status == nil:
		body = []string{"waits for the status of the host"}
	case m.shows == messages:
		body = m.messageLines(room)
	case m.shows == approvals:
		body = m.approvalLines(room)
	default:
		body = m.overviewLines(room)
	}
	body = body[:min(len(body), max(room, 0))]
	for len(body) < room {
		body = append(body, "")
	}
	lines := slices.Concat(head, body, []string{foot})
	lines = lines[max(0, len(lines)-m.height):]
	for i, line := range lines {
		lines[i] = m.fit(line)
	}
	return lines
}

// fit cuts a line, which may have colours, to the width of the screen.
func (m *model) fit(line string) string { return ansi.Truncate(line, m.width, "…") }

func (m *model) paint(colour console.Colour, s string) string {
	if !m.colours {
		return s
	}
	return colour.Paint(s)
}

func (m *model) layout() console.Layout {
	l := console.Layout{Width: m.width - 2, Drop: expendable}
	if m.colours {
		l.Paint = func(colour console.Colour, s string) string { return colour.Paint(s) }
	}
	return l
}

// head describes the host: its process and its verdict.
func (m *model) head() []string {
	if m.status == nil {
		return []string{"exthost top", ""}
	}
	s := m.status
	first := "exthost " + s.Version
	if h := s.Host; h != nil {
		first += fmt.Sprintf("  pid %d  up %s  %s", h.PID, console.Span(m.now().Sub(h.StartedAt).Truncate(time.Second)),
			console.Bytes(h.RSS))
	}
	first += fmt.Sprintf("  %s calls/s  %s", rate(m.load.of("")), cmp.Or(m.serves, "starting"))
	verdict, colour := hosts.Sentence(s.Verdict), hosts.ColourOf(s.Verdict.Word)
	if age := m.now().Sub(m.seen); age >= stale {
		verdict, colour = fmt.Sprintf("the host has said nothing for %s; what is below is old",
			console.Span(age.Truncate(time.Second))), console.Red
	}
	lines := []string{console.Safe(first)}
	for _, line := range console.Wrap(verdict, m.width) {
		lines = append(lines, m.paint(colour, line))
	}
	return append(lines[:min(len(lines), 1+maxVerdict)], "")
}

// foot returns the last line: a question, what the last key led to, or the keys.
func (m *model) foot() string {
	switch {
	case m.ask != nil:
		return m.paint(console.Bold, console.Safe(m.ask.text)+" y yes, any other key no")
	case m.note != "" && m.failed:
		return m.paint(console.Red, oneLine(m.note))
	case m.note != "":
		return m.paint(console.Green, oneLine(m.note))
	}
	keys := "q quit  ? keys  ↑↓ choose  r restart  t messages  s sorted by " + m.order.String()
	switch m.shows {
	case messages:
		keys = "esc back  q quit  messages of " + m.tapped
	case approvals:
		keys = "esc back  ↑↓ choose  a approve  d deny"
	case overview:
		if n := len(m.waiting); n > 0 {
			keys = fmt.Sprintf("a %s  ", console.Count(n, "approval request")) + keys
		}
	}
	return m.paint(console.Dim, console.Safe(keys))
}

// oneLine makes a text safe for one line of the screen.
func oneLine(text string) string { return console.Safe(strings.Join(strings.Fields(text), " ")) }

// expendable are the columns that a narrow terminal leaves out, in this order.
var expendable = []string{"RESTARTS", "P50", "OPEN", "RSS", "ERRORS", "P95"}

// overviewLines returns the tables of extensions, of what needs attention, and of the latest calls.
func (m *model) overviewLines(room int) []string {
	causes := m.causeLines()
	workers := m.workers()
	space := room - len(causes) - 1 - min(len(m.calls)+1, leastCalls+1)
	table := m.workerLines(workers, max(space, 3))
	lines := append(table, causes...)
	if left := room - len(lines) - 2; left > 0 && len(m.calls) > 0 {
		lines = append(lines, "")
		lines = append(lines, m.callLines(left)...)
	}
	return lines
}

// workerLines returns the table of extensions in at most room lines, around the cursor.
func (m *model) workerLines(workers []status.Extension, room int) []string {
	rows := [][]string{{"EXTENSION", "STATE", "CALLS", "CALLS/S", "ERRORS", "P50", "P95", "OPEN", "RSS", "RESTARTS"}}
	for i := range workers {
		rows = append(rows, m.row(&workers[i]))
	}
	lines := m.layout().Grid(rows)
	for i := range lines {
		mark := "  "
		if i > 0 && workers[i-1].ID == m.chosen {
			mark = m.paint(console.Cyan, "▶ ")
		}
		lines[i] = mark + lines[i]
	}
	at := slices.IndexFunc(workers, func(x status.Extension) bool { return x.ID == m.chosen }) + 1
	if len(lines) <= room {
		return lines
	}
	rest := fmt.Sprintf("  %d of %d; ↑ ↓ show the others", max(room-2, 0), len(workers))
	return append(window(lines, at, room-1), m.paint(console.Dim, rest))
}

// window returns the title and those of the other lines around at that fit in room lines.
func window(lines []string, at, room int) []string {
	if len(lines) <= room || room < 2 {
		return lines[:min(len(lines), max(room, 0))]
	}
	rows := room - 1
	from := min(max(at-rows/2, 1), len(lines)-rows)
	return slices.Concat(lines[:1], lines[from:from+rows])
}

func (m *model) row(x *status.Extension) []string {
	p50, late, rss := "-", "-", "-"
	if x.Latency != nil {
		p50, late = console.Span(time.Duration(x.Latency.P50)), console.Span(p95(x))
	}
	if bytes := memory(x); bytes > 0 {
		rss = console.Bytes(bytes)
	}
	return []string{
		x.ID,
		x.State,
		strconv.FormatInt(x.Requests, 10),
		rate(m.load.of(x.ID)),
		strconv.FormatInt(failures(x), 10),
		p50,
		late,
		strconv.Itoa(inFlight(x)),
		rss,
		strconv.Itoa(x.Restarts),
	}
}

// rate renders calls a second.
func rate(n float64) string {
	switch {
	case n == 0:
		return "0"
	case n < 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// causeLines returns what needs attention besides the first cause, which the verdict names.
func (m *model) causeLines() (lines []string) {
	if len(m.status.Verdict.Causes) < 2 {
		return nil
	}
	causes := m.status.Verdict.Causes[1:]
	lines = append(lines, "", m.paint(console.Bold, "NEEDS ATTENTION TOO"))
	for _, cause := range causes[:min(len(causes), maxCauses)] {
		text := cause.Text
		if cause.Next != "" {
			text += "; next: " + cause.Next
		}
		lines = append(lines, "  "+m.paint(console.Yellow, oneLine(console.NearbyText(text))))
	}
	if more := len(causes) - maxCauses; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more: exthost status", more))
	}
	return lines
}

// callLines returns a title and the latest calls, at most n, the newest first.
func (m *model) callLines(n int) []string {
	lines := []string{m.paint(console.Bold, "LATEST CALLS")}
	const others = 56 // columns of a line besides the tool
	room := min(max(m.width-others, 12), 36)
	for i := len(m.calls) - 1; i >= 0 && len(lines) <= n; i-- {
		call := &m.calls[i]
		colour := console.Green
		switch {
		case call.Outcome.IsDenial():
			colour = console.Yellow
		case call.Outcome != status.OutcomeOK:
			colour = console.Red
		}
		lines = append(lines, fmt.Sprintf("  %s %6d  %-*s %s %8s  %s",
			m.paint(console.Dim, call.Time.Local().Format("15:04:05")), call.ID, room,
			console.Cut(console.Safe(cmp.Or(call.Tool, call.Method)), room),
			m.paint(colour, fmt.Sprintf("%-16s", call.Outcome)), console.Span(time.Duration(call.Took)),
			console.Safe(cmp.Or(call.Caller, "anonymous"))))
	}
	return lines
}

// messageLines returns the latest messages of an extension that fit in room lines.
func (m *model) messageLines(room int) (lines []string) {
	if len(m.frames) == 0 {
		return []string{"waits for messages between the host and " + console.Safe(m.tapped)}
	}
	for _, f := range keepLast(m.frames, max(room, 0)) {
		lines = append(lines, hosts.FrameLine(&f, false, m.width, m.colours))
	}
	return lines
}

// approvalLines describes the calls that wait for an approval, with all arguments of the one under the cursor. It
// leaves out the first of them where that one would not be within room lines.
func (m *model) approvalLines(room int) (lines []string) {
	if len(m.waiting) == 0 {
		return []string{"no call waits for an approval"}
	}
	from := 0
	for i := range m.waiting {
		q := &m.waiting[i]
		who := cmp.Or(q.Caller, "anonymous caller")
		if q.Node != "" {
			who += " of node " + q.Node
		}
		left := console.Span(max(0, q.Expires.Sub(m.now())).Truncate(time.Second))
		about := fmt.Sprintf("  %s, %s: %s, %s left", who, q.By(), q.Reason, left)
		if q.AskedIn != "" {
			about += ", asked in " + q.AskedIn + " too"
		}
		mark, arguments, begin := "  ", []string{oneLine(q.Arguments)}, len(lines)
		if q.ID == m.request {
			mark = m.paint(console.Cyan, "▶ ")
			arguments = strings.Split(ansi.Hardwrap(arguments[0], max(m.width-indent, 1), true), "\n")
		}
		tool := m.paint(console.Bold, console.Safe(cmp.Or(q.Tool, q.Method)))
		lines = append(lines, mark+tool+"  "+oneLine(about))
		for _, line := range arguments {
			lines = append(lines, strings.Repeat(" ", indent)+line)
		}
		if q.ID == m.request {
			from = max(0, min(begin, len(lines)-room))
		}
	}
	return lines[from:]
}

// indent is that of the arguments of a call, in columns.
const indent = 4

func helpLines() []string {
	return []string{
		"↑ ↓ k j   choose; page up and page down go further",
		"r         restart the extension, after y",
		"t         show the messages of the extension",
		"a         show the calls that wait for an approval",
		"a d       there: approve or deny one, after y",
		"s         sort the table by another column",
		"esc       back",
		"q         quit",
	}
}
