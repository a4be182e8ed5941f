package operate

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

func TestClientLines(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2020, 1, 31, 12, minute, 0, 0, time.Local) }
	got := strings.Join(clientLines([]status.Client{
		{
			Name:     "code 2",
			Caller:   "bob",
			Session:  "1",
			Protocol: "2025-11-25",
			Front:    "http",
			Tools:    "search",
			Since:    at(5),
		},
		{Name: "code 2", Caller: "ada", Session: "2", Protocol: "2025-11-25", Front: "sse", Since: at(4)},
		{Name: "code 2", Caller: "ada", Session: "3", Protocol: "2025-11-25", Front: "stdio", Since: at(3)},
		{
			Name:     "code 2",
			Caller:   "bob",
			Session:  "4",
			Protocol: "2025-11-25",
			Front:    "http",
			Tools:    "search",
			Since:    at(1),
		},
		{Name: "\x1b[2J", Session: "5", Protocol: "2025-06-18", Front: "http", Since: at(2)},
		{Name: "gone", Caller: "ada", Protocol: "2026-07-28"},
	}, console.Layout{}), "\n")
	const want = `CALLER|SESSIONS|FRONT|MCP|TOOLS|CLIENT|SINCE
anonymous|1|http|2025-06-18|-|\u001b[2J|2020-01-31 12:02:00.000
ada|1|stdio|2025-11-25|-|code 2|2020-01-31 12:03:00.000
ada|1|sse|2025-11-25|-|code 2|2020-01-31 12:04:00.000
bob|2|http|2025-11-25|search|code 2|2020-01-31 12:01:00.000`
	if got = regexp.MustCompile(` {2,}`).ReplaceAllString(got, "|"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if lines := clientLines(nil, console.Layout{}); lines != nil {
		t.Errorf("without clients: %q", lines)
	}
	var many []status.Client
	for n := range 25 {
		many = append(many, status.Client{Caller: fmt.Sprintf("c%02d", n), Session: fmt.Sprint(n)})
	}
	if lines := clientLines(many, console.Layout{}); len(lines) != 1+mostClients+1 ||
		!strings.Contains(lines[len(lines)-1], "5 more") {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}
