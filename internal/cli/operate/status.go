// Package operate implements the commands that watch and change the running host.
package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// runningStatus is the status of the host that serves this directory; without one, of the extensions on disk, with the
// verdict that no host runs.
type runningStatus struct {
	Directory string `json:"directory"`
	Serves    string `json:"serves"` // the URL for MCP clients, or stdio; "": no host runs

	Log    string `json:"log,omitempty"`    // log file of a host in the background
	Beside []int  `json:"beside,omitempty"` // pids of the other hosts of this directory

	// extensions and files on the search paths that the host has not loaded
	Unloaded      []string `json:"unloaded,omitempty"`
	status.Status          // its clients include those of the other hosts of this directory
}

// addBeside adds the other hosts of the directory, and their clients.
func (s *runningStatus) addBeside(ctx context.Context, c *console.Console, pid int) {
	beside := slices.DeleteFunc(hosts.All(ctx), func(r *hosts.Running) bool { return r.Info.PID == pid })
	for _, r := range beside {
		s.Beside = append(s.Beside, r.Info.PID)
	}
	connected := hosts.Connected{Clients: s.Clients, Named: s.NamedClients}
	connected.AddAll(ctx, c, beside)
	s.Clients, s.NamedClients = connected.Clients, connected.Named
}

// asked holds the flags of exthost status, which choose what it shows in place of the host.
type asked struct {
	ready     bool
	tools     []string
	wait      time.Duration
	ui, print bool
}

// Status returns exthost status, which shows the running host, or the extensions on disk if none runs. extension shows
// one extension, with or without a host.
func Status(c *console.Console, extension func(context.Context, *console.Console, string) error) *cobra.Command {
	var o asked
	cmd := &cobra.Command{
		Use:         "status [ID]",
		Short:       "Show what runs, what does not, and why",
		Annotations: console.AsksHost,
		Long: "Show the extensions of the host of this directory: processes, calls and how long they took,\n" +
			"memory, restarts, breakers, and why something does not run. If no host runs, list the extensions on\n" +
			"the search paths, without starting anything, with the reason why any of them cannot run here; the\n" +
			"exit code is then 4.\n\n" +
			"With the ID of an extension, show what its manifest and its handshake say, its tools, which\n" +
			"environment variables are withheld from it and which secret-like ones are passed, its processes and\n" +
			"their last crash. If no host runs, the extension is started for that, and stopped again.\n\n" +
			"--ready answers scripts: the exit code is 0 when what starts with the host has started or failed and\n" +
			"every required policy and extension can run, 10 for not yet, also without a host, 11 for blocked,\n" +
			"with the command that helps, and with --tools 12 for a tool that does not exist. It prints the\n" +
			"verdict about the host, and further causes on stderr.\n\n" +
			"--ui opens the dashboard, signed in with the operator's token of this run, and prints its address.\n" +
			"Without a terminal, or with --print, it only prints the address, which contains the token: give it\n" +
			"to nobody.",
		Example: "  exthost status\n  exthost status notes -o json\n" +
			"  exthost serve & exthost status --ready --wait 30s\n" +
			"  exthost status --ready --tools ext_notes_add,ext_notes_list\n  exthost status --ui",
		SuggestFor:        []string{"list", "ls", "info", "show", "ready", "wait", "ui", "dashboard"},
		Args:              console.AtMostOne("the id of an extension"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ready = o.ready || o.tools != nil || o.wait != 0
			switch {
			case o.print && !o.ui:
				return console.Usagef("exthost status --ui --print", "--print is for --ui")
			case len(args) == 0:
				return o.show(cmd, c)
			case o.ready || o.ui:
				return console.Usagef("exthost status "+args[0],
					"--ready and --ui are about the host, and %q is too much", args[0])
			}
			return extension(cmd.Context(), c, args[0])
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.ready, "ready", false, "answer by the exit code whether the host is ready")
	f.DurationVar(&o.wait, "wait", 0, "with --ready: wait for what is not ready yet, such as 30s")
	f.StringSliceVar(&o.tools, "tools", nil,
		"with --ready: the registered `NAMES` of tools that must be callable, separated by commas")
	f.BoolVar(&o.ui, "ui", false, "open the dashboard in a browser")
	f.BoolVar(&o.print, "print", false, "with --ui: print the address, open no browser")
	for _, name := range []string{"ready", "wait", "tools"} {
		cmd.MarkFlagsMutuallyExclusive(name, "ui")
	}
	return cmd
}

func (o *asked) show(cmd *cobra.Command, c *console.Console) error {
	switch {
	case o.ready:
		return ready(cmd.Context(), c, o.tools, o.wait)
	case !o.ui && c.Host == "":
		if absent := notReached(cmd.Context(), c); absent != nil {
			return showDisk(cmd.Context(), c, absent)
		}
	}
	return hosts.OnRunning(func(ctx context.Context, r *hosts.Running, _ []string) error {
		if o.ui {
			return openDashboard(ctx, c, r, o.print)
		}
		return showRunning(ctx, c, r)
	})(cmd, nil)
}

// notReached returns an error that says that no host runs with these flags in this directory; nil if one does.
func notReached(ctx context.Context, c *console.Console) *console.Error {
	_, err := hosts.Find(ctx)
	if e, ok := errors.AsType[*console.Error](err); ok && e.Code == console.ExitNotFound {
		return e
	}
	if err == nil && len(c.Extensions) > 0 {
		if r, _, err := hosts.Reach(ctx, c); err == nil && r == nil {
			return &console.Error{
				Code: console.ExitNotFound,
				Text: "the host of this directory runs without this --extensions",
				Hint: "exthost status, which shows that host",
			}
		}
	}
	return nil
}

// showDisk lists the extensions on the search paths and returns absent, which says that no host runs.
func showDisk(ctx context.Context, c *console.Console, absent *console.Error) error {
	s, err := hosts.OnDisk(ctx, c)
	if err != nil {
		return err
	}
	hosts.PrintDiagnostics(c, s)
	names, rows := []string{}, [][]string{{"ID", "VERSION", "RUNS AS", "STATE", "DESCRIPTION"}}
	for _, x := range s.Extensions {
		names = append(names, x.ID)
		about := cmp.Or(x.Reason, x.Description)
		if x.HooksSee == config.HooksAll {
			about = "its hooks see all calls; " + about
		}
		rows = append(rows, []string{x.ID, cmp.Or(x.Version, "-"), cmp.Or(hosts.RunsAs(x), "-"), x.State, about})
	}
	if len(names) == 0 {
		rows = [][]string{}
	}
	s.Extensions = console.OrEmpty(s.Extensions)
	s.Verdict = noHost(absent)
	lines := console.Wrap(hosts.Sentence(s.Verdict), c.Layout(false).Width)
	if len(rows) > 0 {
		lines = append(append(lines, ""), c.Layout(true, "VERSION", "RUNS AS").Grid(rows)...)
	}
	if err := c.Print(console.Document{
		Kind:  "status",
		Value: runningStatus{Directory: hosts.Here(), Status: s},
		Names: names,
		Text:  strings.Join(lines, "\n"),
	}); err != nil {
		return err
	}
	return absent
}

// noHost returns the verdict if no host runs, as absent says.
func noHost(absent *console.Error) status.Verdict {
	text, _, _ := strings.Cut(absent.Text, hosts.Elsewhere)
	o := status.Obstacle{ID: "host", Blocked: true, All: true, Text: text, Next: absent.Hint}
	return status.Verdict{
		Word:   status.NoCallPasses,
		Text:   string(status.NoCallPasses) + ": " + o.Text + "; next: " + o.Next,
		Causes: []status.Obstacle{o},
	}
}

func showRunning(ctx context.Context, c *console.Console, r *hosts.Running) error {
	s, unloaded, err := r.StatusOnDisk(ctx, c)
	if err != nil {
		return err
	}
	names := []string{}
	for _, x := range s.Extensions {
		names = append(names, x.ID)
	}
	for _, d := range s.Destinations {
		names = append(names, d.ID)
	}
	all := runningStatus{
		Directory: cmp.Or(r.Info.Dir, hosts.Here()),
		Serves:    r.Info.Serves,
		Log:       r.Info.Log,
		Unloaded:  unloaded,
		Status:    s,
	}
	all.addBeside(ctx, c, r.Info.PID)
	table := all.table(time.Now(), c.Layout(false, expendable...))
	table = append(table, all.again(len(table), console.Height(c.Out), console.Width(c.Out))...)
	return c.Print(console.Document{Kind: "status", Value: all, Names: names, Text: strings.Join(table, "\n")})
}

// again returns the verdict once more if the first of the printed lines are no longer on the screen.
func (s *runningStatus) again(printed, height, width int) []string {
	if height == 0 || printed < height {
		return nil
	}
	return append([]string{""}, console.Wrap(hosts.Sentence(s.Verdict), width)...)
}

// table renders the status. Without a width, a row is one line, with its note in the last column.
func (s *runningStatus) table(now time.Time, layout console.Layout) []string {
	width := layout.Width
	lines := append(s.heading(now, width), "")
	lines = append(lines, layOut(s.rows(now, width), layout)...)
	section := func(more []string) {
		if len(more) > 0 {
			lines = append(append(lines, ""), more...)
		}
	}
	if broken := hosts.BrokenFiles(s.Status); len(broken) > 0 {
		section(console.Wrap(console.Safe("not run, because of errors that exthost validate shows: "+
			strings.Join(broken, ", ")), width))
	}
	if len(s.Unloaded) > 0 {
		section(console.Wrap(console.Safe(hosts.UnloadedText(s.Unloaded)), width))
	}
	if s.Cluster != nil {
		section(hosts.ClusterLines(s.Cluster, now, layout))
	}
	if len(s.Policies) > 0 {
		of := hosts.PolicyLayout(layout)
		of.Fold = false // notes stand below the rows
		section(layOut(policyRows(s.Policies, now, width), of))
	}
	section(denialLines(s.Denials, now, layout))
	section(clientLines(s.Clients, layout))
	section(questionLines(s.Questions, layout))
	if s.Audit != nil {
		section([]string{console.Safe("audit log " + s.Audit.Path)}) // its policy says why it cannot be written
	}
	if s.Tracing != nil {
		section(console.Wrap(console.Safe(tracingText(s.Tracing)), width))
	}
	var recordings []string
	for _, r := range s.Recordings {
		recordings = append(recordings, console.Wrap(console.Safe(recordingText(&r)), width)...)
	}
	section(recordings)
	section(s.approvals())
	return lines
}

// heading describes the host itself.
func (s *runningStatus) heading(now time.Time, width int) (lines []string) {
	say := func(text string) { lines = append(lines, console.Wrap(text, width)...) }
	say(hosts.Sentence(s.Verdict))
	say(fmt.Sprintf("exthost %s, pid %d, up %s, %s, %s", s.Version, s.Host.PID,
		console.Span(now.Sub(s.Host.StartedAt).Truncate(time.Second)), console.Bytes(s.Host.RSS),
		cmp.Or(s.Serves, "starting")))
	if url, ok := hosts.Dashboard(s.Serves); ok {
		say("dashboard at " + url + ", which exthost status --ui opens")
	}
	held := append([]string{"processes held by " + s.Containment.String()}, s.Containment.Lacks...)
	say(strings.Join(held, "; not by "))
	if s.Trust == config.TrustOff {
		say(hosts.TrustsAll)
	}
	if s.Log != "" {
		say(console.Safe("in the background for clients on stdio, exthost stop ends it; log in " + s.Log))
	}
	if len(s.Beside) > 0 {
		pids := strings.Trim(fmt.Sprint(s.Beside), "[]")
		say("beside it, for clients with another environment or other flags: pid " +
			strings.ReplaceAll(pids, " ", ", "))
	}
	for _, text := range hosts.Warnings(s.Status) {
		say(console.Safe("warning: " + text))
	}
	return append(lines, brokenConfig(s.Status, width)...)
}

// rows returns the titles, and the rows of extensions and destinations.
func (s *runningStatus) rows(now time.Time, width int) []statusRow {
	rows := []statusRow{{cells: statusColumns}}
	if width == 0 {
		rows[0].notes = []string{"NOTE"} // title of the column
	}
	for _, x := range s.Extensions {
		of := extensionRows(x, s.Diagnostics, now)
		if x.Login == "" && slices.ContainsFunc(x.Instances,
			func(i status.Instance) bool { return i.State == string(supervisor.Failed) }) {
			note := "exthost status " + x.ID + " shows more"
			if x.Next == "" { // else the reason ends with what to do
				note += "; fix it, then exthost restart " + x.ID
			}
			of[0].notes = append(of[0].notes, note)
		}
		rows = append(rows, of...)
	}
	for _, d := range s.Destinations {
		rows = append(rows, destinationRows(d, s.Diagnostics, now)...)
	}
	return rows
}

// approvals counts the approval requests that wait at this host and at other nodes; nil if there are none.
func (s *runningStatus) approvals() []string {
	remote, text := hosts.RemoteApprovals(s.Cluster), ""
	if remote > 0 {
		text = fmt.Sprintf(", %d of them at other nodes", remote)
	}
	all := s.ApprovalRequests + remote
	if all == 0 {
		return nil
	}
	return []string{fmt.Sprintf("approval requests that wait: %d%s; exthost calls approve lists them", all, text)}
}

// tracingText describes what became of the spans of calls.
func tracingText(t *status.Tracing) string {
	text := fmt.Sprintf("traces to %s: %d spans sent", t.Endpoint, t.Sent)
	if lost := t.Dropped + t.Failed; lost > 0 {
		text += fmt.Sprintf(", %d lost", lost)
	}
	if t.Next != "" {
		text += ": " + t.Problem + "; " + t.Next
	}
	return text
}

// recordingText describes what is recorded, and since when.
func recordingText(r *status.Recording) string {
	text := "recording by exthost calls record or the dashboard"
	if r.File != "" {
		text = "recording to " + r.File
	}
	text += fmt.Sprintf(" since %s: %d lines", console.Stamp(r.Since), r.Records)
	if r.Omitted > 0 {
		text += fmt.Sprintf(", %d frames left out", r.Omitted)
	}
	if len(r.Extensions) > 0 {
		text += "; of " + strings.Join(r.Extensions, ", ")
	}
	return text
}

// brokenConfig explains why the configuration on disk is not in force.
func brokenConfig(s status.Status, width int) (lines []string) {
	next := "fix it, then exthost reload"
	for _, d := range hosts.BrokenConfig(s) {
		if status.IsCommand(d.Hint) {
			d.Hint, next = "", d.Hint
		}
		lines = append(lines, console.Hang(console.Safe("  "+console.Nearby(d).String()), width)...)
	}
	if lines == nil {
		return nil
	}
	lines = append(console.Wrap("the configuration on disk cannot be used, and the one before it stays in force:",
		width), lines...)
	return append(append([]string{""}, lines...), "  next: "+next)
}

// statusRow is an extension or one of its instances: its cells, and the notes below.
type statusRow struct{ cells, notes []string }

var statusColumns = []string{"ID", "STATE", "PID", "UP", "CALLS", "DENIED", "ERRORS", "TOOL_ERRORS", "P50", "P95",
	"RSS", "RESTARTS", "BREAKER"}

// expendable are the columns that a narrow terminal leaves out, in this order. A note repeats the state of a breaker
// that is not closed.
var expendable = []string{"UP", "BREAKER", "PID", "P50", "RESTARTS", "RSS", "P95", "TOOL_ERRORS"}

// layOut aligns the rows and puts the notes below them.
func layOut(rows []statusRow, layout console.Layout) (lines []string) {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = slices.Clone(r.cells)
		if layout.Width == 0 {
			cells[i] = append(cells[i], strings.Join(r.notes, "; "))
		}
	}
	for i, line := range layout.Grid(cells) {
		lines = append(lines, line)
		if layout.Width == 0 {
			continue
		}
		for _, note := range rows[i].notes {
			for _, part := range console.Wrap(console.Safe(note), max(layout.Width-4, console.LeastRoom)) {
				lines = append(lines, "    "+part)
			}
		}
	}
	return lines
}

// extensionRows returns the row of an extension, and one for each instance if there are several.
func extensionRows(x status.Extension, diags []protocol.Diagnostic, now time.Time) []statusRow {
	row := statusRow{
		cells: []string{x.ID, stateCell(x, now), "-", "-", strconv.FormatInt(x.Requests, 10), rate(x.Denied, x),
			rate(x.Errors+x.Refused+x.Invalid, x), rate(x.ToolErrors, x), "-", "-", "-", strconv.Itoa(x.Restarts), "-"},
	}
	if x.Latency != nil {
		row.cells[8] = console.Span(time.Duration(x.Latency.P50))
		row.cells[9] = console.Span(time.Duration(x.Latency.P95))
	}
	if len(x.Instances) == 1 {
		row.fill(x.Instances[0], now)
	}
	if x.Reason != "" && (len(x.Instances) != 1 || x.State == string(supervisor.Spawning) && row.notes == nil) {
		row.notes = []string{x.Reason}
	}
	row.notes = append(row.notes, extensionNotes(x, diags, now)...)
	rows := []statusRow{row}
	if len(x.Instances) < 2 {
		return rows
	}
	for _, i := range x.Instances {
		row := statusRow{
			cells: []string{"  " + i.Key, i.State, "-", "-", "", "", "", "", "", "", "-", strconv.Itoa(i.Restarts),
				"-"},
		}
		row.fill(i, now)
		rows = append(rows, row)
	}
	return rows
}

// policyRows returns the titles and a row for each policy.
func policyRows(list []status.Policy, now time.Time, width int) (rows []statusRow) {
	for i, cells := range hosts.PolicyRows(list, now) {
		last := len(cells) - 1
		row := statusRow{cells: cells[:last]}
		if note := cells[last]; note != "" && (i > 0 || width == 0) {
			row.notes = []string{note}
		}
		rows = append(rows, row)
	}
	return rows
}

// stateCell returns the state of an extension and, while it is starting, for how long it has been starting.
func stateCell(x status.Extension, now time.Time) string {
	if x.State != string(supervisor.Spawning) {
		return x.State
	}
	for _, i := range x.Instances {
		if i.State == x.State && !i.Since.IsZero() {
			return "starting, " + console.Span(now.Sub(i.Since).Truncate(time.Second))
		}
	}
	return "starting"
}

// extensionNotes returns the notes about an extension, except those about one instance.
func extensionNotes(x status.Extension, diags []protocol.Diagnostic, now time.Time) (notes []string) {
	if x.Login != "" && x.Login != x.Reason {
		notes = append(notes, x.Login)
	}
	if x.Containment != "" {
		notes = append(notes, "held by a "+x.Containment+" too")
	}
	if x.Sandbox != nil {
		notes = append(notes, x.Sandbox.String())
	}
	if slices.ContainsFunc(diags, func(d protocol.Diagnostic) bool {
		return d.Extension == x.ID && d.Code == string(protocol.DescriptorChanged) && d.Level == protocol.LevelWarn
	}) {
		notes = append(notes, "tools changed: exthost status "+x.ID+", then exthost tools accept "+x.ID)
	}
	for _, d := range diags {
		if d.Extension == x.ID && d.Code == builtin.CodeOutputMismatch {
			notes = append(notes, d.Message)
		}
	}
	if hint := hosts.Remedy(status.Status{Diagnostics: diags}, x); x.LeftOut() && hint != "" {
		notes = append(notes, hint)
	}
	if !x.LeftOut() {
		notes = append(notes, newerBuild(x, diags)...)
	}
	return append(append(notes, hosts.SlowCalls(x, now)...), failureNotes(x, now)...)
}

// newerBuild explains why the build on disk is not the one in force; nil if it is.
func newerBuild(x status.Extension, diags []protocol.Diagnostic) []string {
	runs := x.State == string(supervisor.Ready)
	for _, d := range diags {
		switch {
		case !hosts.Concerns(d, x):
		case d.Code == string(protocol.ManifestInvalid) && d.Level == protocol.LevelError:
			text := "the manifest is broken, as exthost status " + x.ID + " shows"
			if runs {
				text += ", and the previous build still runs"
			}
			return []string{text + "; fix it, then exthost reload"}
		case d.Code != string(protocol.Untrusted):
		case runs:
			return []string{d.Message + "; the previous build runs: " + d.Hint}
		case !strings.Contains(x.Reason, d.Message): // else the reason is shown already
			return []string{d.Message + "; " + d.Hint}
		}
	}
	return nil
}

// failing is the number of failed calls in a row after which the note about the last one stays.
const failing = 3

// failureNotes returns the note about the last failed call: for a minute, or until a call succeeds if several have
// failed in a row.
func failureNotes(x status.Extension, now time.Time) []string {
	f := x.LastFailure
	if f == nil || now.Sub(f.Time) >= time.Minute && x.FailedInRow < failing ||
		f.Kind == protocol.RequirementMissing && x.Login != "" {
		return nil
	}
	ago := console.Span(now.Sub(f.Time))
	switch {
	case f.Kind == protocol.CallTimeout && x.Transport == "exec": // its process has ended
		return []string{
			fmt.Sprintf("a call timed out %s ago: raise call_timeout under [runtime] if it is only slow", ago),
		}
	case f.Kind == protocol.CallTimeout:
		return []string{fmt.Sprintf("a call timed out %s ago: exthost restart %s if it hangs", ago, x.ID)}
	}
	return []string{strings.TrimSuffix(fmt.Sprintf("a call failed %s ago: %s", ago, f.Reason), ": ")}
}

func destinationRows(d status.Destination, diags []protocol.Diagnostic, now time.Time) []statusRow {
	rows := extensionRows(d.Extension, diags, now)
	note := "a destination, at /" + d.ID + "/"
	if d.Listens != "" {
		note += " and " + d.Listens
	}
	if d.State == string(supervisor.Failed) && !slices.Contains(rows[0].notes, d.Reason) {
		rows[0].notes = append(rows[0].notes, d.Reason)
	}
	if d.Refuses != "" {
		rows[0].notes = append(rows[0].notes, "connections are refused: "+d.Refuses)
	}
	rows[0].notes = append(rows[0].notes, note)
	return rows
}

func (r *statusRow) fill(i status.Instance, now time.Time) {
	if i.PID > 0 {
		r.cells[2] = strconv.Itoa(i.PID)
		r.cells[3] = console.Span(now.Sub(i.StartedAt).Truncate(time.Second))
		r.cells[10] = console.Bytes(i.RSS)
	}
	r.cells[12] = cmp.Or(i.Breaker, "-")
	notes := hosts.Condition(i, now)
	if i.Queued > 0 {
		notes = append(notes, console.Plural(i.Queued, "call")+" queued")
	}
	if len(notes) > 0 {
		r.notes = []string{strings.Join(notes, "; ")}
	}
}

// rate renders n with its percentage of the requests to x.
func rate(n int64, x status.Extension) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.3g%%)", n, 100*float64(n)/float64(max(n, x.Requests)))
}
