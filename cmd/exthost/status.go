package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
)

// runningStatus is the status of the host that serves this directory.
type runningStatus struct {
	Directory string `json:"directory"`
	Serves    string `json:"serves"` // the URL for MCP clients, or stdio
	status.Status
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what the running exthost of this directory does",
		Long: "Show the extensions of the exthost that serves this directory: processes, calls and how\n" +
			"long they took, memory, restarts, breakers, and why something does not run.",
		Example: "  exthost status\n  exthost status -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.running(cmd.Context())
			if err != nil {
				return err
			}
			s, err := r.status(cmd.Context())
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
			all := runningStatus{Directory: here(), Serves: r.info.Serves, Status: s}
			table := statusTable(all, time.Now(), width(a.out))
			return a.print(document{Kind: "status", Value: all, Names: names, Text: strings.Join(table, "\n")})
		},
	}
}

// statusTable is the status for a terminal of the given width; 0 is none, where a row
// is one line, with its note in the last column.
func statusTable(s runningStatus, now time.Time, width int) []string {
	lines := wrap(fmt.Sprintf("exthost %s, pid %d, up %s, %s, %s", s.Version, s.Host.PID, span(now.Sub(s.Host.StartedAt).Truncate(time.Second)), bytesOf(s.Host.RSS), cmp.Or(s.Serves, "starting")), width)
	held := "processes held by " + s.Containment.String()
	if len(s.Containment.Lacks) > 0 {
		held += "; not by " + strings.Join(s.Containment.Lacks, "; not by ")
	}
	lines = append(append(lines, wrap(held, width)...), "")
	rows := []statusRow{{cells: statusColumns}}
	if width == 0 {
		rows[0].notes = []string{"NOTE"}
	}
	for _, x := range s.Extensions {
		of := extensionRows(x, s.Diagnostics, now)
		if slices.ContainsFunc(x.Instances, func(i status.Instance) bool { return i.State == string(supervisor.Failed) }) {
			of[0].notes = append(of[0].notes, "exthost info "+x.ID+" says more; mend it, then exthost restart "+x.ID)
		}
		rows = append(rows, of...)
	}
	for _, d := range s.Destinations {
		rows = append(rows, destinationRows(d, s.Diagnostics, now)...)
	}
	lines = append(lines, layOut(rows, width)...)
	if broken := brokenFiles(s.Status); len(broken) > 0 {
		lines = append(append(lines, ""), wrap(safe("not run, because of faults that exthost validate shows: "+strings.Join(broken, ", ")), width)...)
	}
	if len(s.Policies) > 0 {
		lines = append(append(lines, ""), grid(policyRows(s.Policies), width, true)...)
	}
	if s.Audit != nil {
		lines = append(lines, "", safe("audit log "+strings.TrimSuffix(s.Audit.Path+": "+s.Audit.Reason, ": ")))
	}
	if s.Questions > 0 {
		lines = append(lines, "", fmt.Sprintf("calls that wait for an approval: %d, exthost approve lists them", s.Questions))
	}
	return lines
}

// brokenFiles are the files whose faults keep them from being an extension at all,
// which the table therefore lacks.
func brokenFiles(s status.Status) (names []string) {
	for _, d := range unlisted(s) {
		name := cmp.Or(nearby(d).Path, d.Extension)
		if d.Level == protocol.LevelError && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// statusRow is one extension, or one of its instances.
type statusRow struct{ cells, notes []string }

var statusColumns = []string{"ID", "STATE", "PID", "UP", "CALLS", "ERRORS", "P50", "P95", "RSS", "RESTARTS", "BREAKER"}

// expendable are the columns that a narrow terminal does without, the first of them
// first; a breaker that is not closed is in the note as well.
var expendable = []string{"UP", "BREAKER", "PID", "P50", "RESTARTS"}

// layOut aligns the rows, each with its notes below.
func layOut(rows []statusRow, width int) (lines []string) {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = slices.Clone(r.cells)
		if width == 0 {
			cells[i] = append(cells[i], strings.Join(r.notes, "; "))
		}
	}
	for _, title := range expendable {
		if width == 0 || widest(grid(cells, 0, false)) <= width {
			break
		}
		column := slices.Index(cells[0], title)
		for i := range cells {
			cells[i] = slices.Delete(cells[i], column, column+1)
		}
	}
	for i, line := range grid(cells, 0, false) {
		lines = append(lines, line)
		if width == 0 {
			continue
		}
		for _, note := range rows[i].notes {
			for _, part := range wrap(safe(note), max(width-4, leastRoom)) {
				lines = append(lines, "    "+part)
			}
		}
	}
	return lines
}

func widest(lines []string) (n int) {
	for _, l := range lines {
		n = max(n, len([]rune(l)))
	}
	return n
}

// extensionRows are the row of an extension, and when it has several instances one
// for each.
func extensionRows(x status.Extension, diags []protocol.Diagnostic, now time.Time) []statusRow {
	row := statusRow{cells: []string{x.ID, x.State, "-", "-", strconv.FormatInt(x.Calls+x.Refused, 10), errorRate(x), "-", "-", "-", strconv.Itoa(x.Restarts), "-"}}
	if x.Latency != nil {
		row.cells[6], row.cells[7] = span(x.Latency.P50), span(x.Latency.P95)
	}
	if len(x.Instances) == 1 {
		row.fill(x.Instances[0], now)
	} else if x.Reason != "" {
		row.notes = []string{x.Reason}
	}
	if x.Containment != "" {
		row.notes = append(row.notes, "held by a "+x.Containment+" too")
	}
	if slices.ContainsFunc(diags, func(d protocol.Diagnostic) bool {
		return d.Extension == x.ID && d.Code == string(protocol.DescriptorChanged) && d.Level == protocol.LevelWarn
	}) {
		row.notes = append(row.notes, "its tools are not what they were: exthost info "+x.ID)
	}
	if x.State != status.StateSkipped && slices.ContainsFunc(diags, func(d protocol.Diagnostic) bool {
		return concerns(d, x) && d.Code == string(protocol.ManifestInvalid) && d.Level == protocol.LevelError
	}) {
		row.notes = append(row.notes, "its manifest is broken by now, and what runs is from before: exthost info "+x.ID)
	}
	if f := x.LastFailure; f != nil && f.Kind == protocol.CallTimeout && now.Sub(f.Time) < time.Minute {
		row.notes = append(row.notes, fmt.Sprintf("a call timed out %s ago: exthost restart %s if it hangs", span(now.Sub(f.Time)), x.ID))
	}
	rows := []statusRow{row}
	if len(x.Instances) < 2 {
		return rows
	}
	for _, i := range x.Instances {
		row := statusRow{cells: []string{"  " + i.Key, i.State, "-", "-", "", "", "", "", "-", strconv.Itoa(i.Restarts), "-"}}
		row.fill(i, now)
		rows = append(rows, row)
	}
	return rows
}

// destinationRows are those of a destination, with where it is reached.
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

// fill puts in what is known of one instance.
func (r *statusRow) fill(i status.Instance, now time.Time) {
	if i.PID > 0 {
		r.cells[2], r.cells[3], r.cells[8] = strconv.Itoa(i.PID), span(now.Sub(i.StartedAt).Truncate(time.Second)), bytesOf(i.RSS)
	}
	r.cells[10] = cmp.Or(i.Breaker, "-")
	var notes []string
	if i.State != string(supervisor.Ready) && i.Reason != "" {
		notes = append(notes, strings.TrimSuffix(i.Reason+": "+complaint(i), ": "))
	}
	notes = append(notes, prospects(i, now)...)
	if i.Queued > 0 {
		notes = append(notes, fmt.Sprintf("%d calls wait", i.Queued))
	}
	if len(notes) > 0 {
		r.notes = []string{strings.Join(notes, "; ")}
	}
}

// complaint is what an instance complained of on stderr; "" when its reason says so, or
// it did not.
func complaint(i status.Instance) string {
	if i.Evidence == nil || strings.Contains(i.Reason, i.Evidence.Complaint()) {
		return ""
	}
	return cut(i.Evidence.Complaint(), 200)
}

// prospects say when an instance that takes no calls is to take some again.
func prospects(i status.Instance, now time.Time) (notes []string) {
	switch {
	case i.NextRetry != nil && i.NextRetry.After(now):
		notes = append(notes, "next try in "+span(i.NextRetry.Sub(now)))
	case i.NextRetry != nil: // what is lazy waits for one
		notes = append(notes, "next try with the next call")
	}
	switch {
	case i.NextProbe != nil:
		notes = append(notes, "breaker open, next probe in "+span(max(0, i.NextProbe.Sub(now))))
	case i.Breaker != "" && i.Breaker != "closed":
		notes = append(notes, "breaker "+strings.ReplaceAll(i.Breaker, "_", " "))
	}
	return notes
}

// errorRate is how many calls failed or were refused, and how many of a hundred.
func errorRate(x status.Extension) string {
	failed, all := x.Errors+x.Refused, x.Calls+x.Refused
	if failed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.3g%%)", failed, 100*float64(failed)/float64(all))
}

// span writes a duration with as much of it as matters.
func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond / 10).String()
	case d < time.Minute:
		return d.Round(time.Second / 10).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// bytesOf writes an amount of memory; "-" when it is not known.
func bytesOf(n int64) string {
	if n <= 0 {
		return "-"
	}
	if n < 1<<30 {
		return fmt.Sprintf("%.3g MiB", math.Max(0.01, float64(n)/(1<<20)))
	}
	return fmt.Sprintf("%.3g GiB", float64(n)/(1<<30))
}
