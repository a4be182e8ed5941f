package bench_test

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/testing/benchtest"
)

// table is a table for docs/proof/benchmarks.md: a row for each way, a column for each load.
type table struct {
	title   string
	columns []string
	rows    []string
	cells   map[[2]string]string // by row and column
}

var (
	libraries     = &table{title: "way"}
	librarySlow   = &table{title: "the slowest calls of a way"}
	gateways      = &table{title: "gateway"}
	gatewaySlow   = &table{title: "the slowest calls of a gateway"}
	printedTables = []*table{libraries, librarySlow, gateways, gatewaySlow}
)

// printTables writes the tables to stdout as Markdown.
func printTables() {
	for _, t := range printedTables {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Printf("\n| %s | %s |\n|---|%s\n", t.title, strings.Join(t.columns, " | "),
			strings.Repeat("--:|", len(t.columns)))
		for _, row := range append(t.rows, "load of the machine") {
			fmt.Printf("| %s |", row)
			for _, column := range t.columns {
				fmt.Printf(" %s |", t.cells[[2]string{row, column}])
			}
			fmt.Println()
		}
	}
}

func (t *table) set(row, column, text string) {
	if t.cells == nil {
		t.cells = make(map[[2]string]string)
	}
	if !slices.Contains(t.columns, column) {
		t.columns = append(t.columns, column)
	}
	if !slices.Contains(t.rows, row) && row != "load of the machine" {
		t.rows = append(t.rows, row)
	}
	t.cells[[2]string{row, column}] = text
}

// add fills the column of a load, with the ratio to the first way. The unit is p50 for one caller of small calls, calls
// per second for several callers, and bytes of results per second for large results.
func (t *table) add(l benchtest.Load, results []benchtest.Result) {
	for _, r := range results {
		first := results[0]
		switch {
		case l.Down >= 1<<20:
			column := fmt.Sprintf("%d MiB result, MB/s", l.Down>>20)
			if l.Up == l.Down {
				column = fmt.Sprintf("%d MiB both ways, MB/s", l.Down>>20)
			}
			t.set(r.Name, column, fmt.Sprintf("%.0f (%.2g)", r.Rate*float64(l.Down)/1e6, r.Rate/first.Rate))
			t.set("load of the machine", column, load())
		case l.Callers == 1:
			t.set(r.Name, "1 caller, p50 µs", micros(r, first))
			t.set("load of the machine", "1 caller, p50 µs", load())
		default:
			column := fmt.Sprintf("%d callers, calls/s", l.Callers)
			t.set(r.Name, column, rate(r, first))
			t.set("load of the machine", column, load())
		}
	}
}

// addClient fills the column of a client and a load.
func (t *table) addClient(name string, l benchtest.Load, results []benchtest.Result) {
	for _, r := range results {
		column, text := name+", p50 µs", micros(r, results[0])
		if l.Callers > 1 {
			column, text = fmt.Sprintf("%s, %d sessions, calls/s", name, l.Callers), rate(r, results[0])
		}
		t.set(r.Name, column, text)
		t.set("load of the machine", column, load())
	}
}

// addSlowest fills the column of a load with the percentiles of its calls.
func (t *table) addSlowest(column string, results []benchtest.Result) {
	column += ": p99, p99.9 µs"
	for _, r := range results {
		p99, p999 := float64(r.P99.Nanoseconds())/1e3, float64(r.P999.Nanoseconds())/1e3
		t.set(r.Name, column, fmt.Sprintf("%.0f, %.0f", p99, p999))
		t.set("load of the machine", column, load())
	}
}

func micros(r, first benchtest.Result) string {
	return fmt.Sprintf("%.3g (%.2g)", float64(r.P50.Nanoseconds())/1e3, float64(r.P50)/float64(first.P50))
}

func rate(r, first benchtest.Result) string {
	return fmt.Sprintf("%.3gk (%.2g)", r.Rate/1e3, r.Rate/first.Rate)
}

// load returns the load average of the last minute, or unknown.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	average, _, _ := strings.Cut(string(text), " ")
	return average
}
