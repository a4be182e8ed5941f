package operate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// mostClients is how many rows of clients a table has at most.
const mostClients = 20

// clientLines returns a table of the connected clients, with one row for all similar sessions of a caller.
func clientLines(clients []status.Client, layout console.Layout) []string {
	type alike struct{ caller, toolset, front, protocol, tools, name string }
	var order []alike
	sessions, first := make(map[alike]int), make(map[alike]status.Client)
	for _, c := range clients {
		if c.Session == "" {
			continue // without a session, a client counts as connected only while it makes a request
		}
		key := alike{c.Caller, c.Toolset, c.Front, c.Protocol, c.Tools, c.Name}
		if sessions[key]++; sessions[key] == 1 {
			order = append(order, key)
		}
		if known, ok := first[key]; !ok || c.Since.Before(known.Since) {
			first[key] = c
		}
	}
	if order == nil {
		return nil
	}
	slices.SortFunc(order, func(a, b alike) int {
		return cmp.Or(cmp.Compare(a.caller, b.caller), cmp.Compare(a.toolset, b.toolset),
			first[a].Since.Compare(first[b].Since), cmp.Compare(a.name, b.name))
	})
	rows := [][]string{{"CALLER", "SESSIONS", "FRONT", "MCP", "TOOLS", "CLIENT", "SINCE"}}
	for _, key := range order[:min(len(order), mostClients)] {
		caller := cmp.Or(key.caller, "anonymous")
		if key.toolset != "" {
			caller += ", toolset " + key.toolset
		}
		rows = append(rows, []string{
			caller,
			strconv.Itoa(sessions[key]),
			cmp.Or(key.front, "-"),
			key.protocol,
			cmp.Or(key.tools, "-"),
			cmp.Or(key.name, "-"),
			console.Stamp(first[key].Since),
		})
	}
	lines := layout.Grid(rows)
	if more := len(order) - mostClients; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more, which -o json shows", more))
	}
	return lines
}
