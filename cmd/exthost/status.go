package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
)

// runningStatus is the status of the host that serves this directory.
type runningStatus struct {
	Directory string `json:"directory"`
	Serves    string `json:"serves"` // the URL for MCP clients, or stdio
	exthost.Status
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
			all := runningStatus{Directory: here(), Serves: r.info.Serves, Status: s}
			return a.print(document{Kind: "status", Value: all, Names: names, Rows: statusRows(all, time.Now())})
		},
	}
}

func statusRows(s runningStatus, now time.Time) [][]string {
	heading := fmt.Sprintf("exthost %s, pid %d, up %s, %s, %s", s.Version, s.Host.PID, span(now.Sub(s.Host.StartedAt)), bytesOf(s.Host.RSS), cmp.Or(s.Serves, "starting"))
	rows := [][]string{{heading}, {}, {"ID", "STATE", "PID", "UP", "CALLS", "ERRORS", "P50", "P95", "RSS", "RESTARTS", "BREAKER", "NOTE"}}
	for _, x := range s.Extensions {
		row := []string{x.ID, x.State, "-", "-", strconv.FormatInt(x.Calls, 10), errorRate(x), "-", "-", "-", strconv.Itoa(x.Restarts), "-", x.Reason}
		if x.Latency != nil {
			row[6], row[7] = span(x.Latency.P50), span(x.Latency.P95)
		}
		if len(x.Instances) == 1 {
			instanceCells(row, x.Instances[0], now)
		}
		rows = append(rows, row)
		if len(x.Instances) < 2 {
			continue
		}
		for _, i := range x.Instances {
			row := []string{"  " + i.Key, i.State, "-", "-", "", "", "", "", "-", strconv.Itoa(i.Restarts), "-", i.Reason}
			instanceCells(row, i, now)
			rows = append(rows, row)
		}
	}
	return rows
}

// instanceCells fills in what is known of one process.
func instanceCells(row []string, i exthost.InstanceStatus, now time.Time) {
	if i.PID > 0 {
		row[2], row[3], row[8] = strconv.Itoa(i.PID), span(now.Sub(i.StartedAt)), bytesOf(i.RSS)
	}
	row[10] = cmp.Or(i.Breaker, "-")
	var notes []string
	if i.State != "ready" && i.Reason != "" {
		notes = append(notes, i.Reason)
	}
	if i.NextRetry != nil {
		notes = append(notes, "next try in "+span(max(0, i.NextRetry.Sub(now))))
	}
	if i.Queued > 0 {
		notes = append(notes, fmt.Sprintf("%d calls wait", i.Queued))
	}
	row[11] = strings.Join(notes, "; ")
}

// errorRate is how many calls failed or were refused, and how many of a hundred.
func errorRate(x exthost.ExtensionStatus) string {
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
