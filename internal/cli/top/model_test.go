//go:build !slim

package top

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// asked is an operator that records what keys ask for.
type asked struct{ list []string }

func (a *asked) restart(id string) { a.list = append(a.list, "restart "+id) }
func (a *asked) answer(id string, approve bool) {
	a.list = append(a.list, fmt.Sprintf("answer %s %v", id, approve))
}

func (a *asked) tap(id string) (stop func()) {
	a.list = append(a.list, "tap "+id)
	return func() { a.list = append(a.list, "stop "+id) }
}

// display is a model on a screen, at a time that the test sets.
type display struct {
	*testing.T
	*model
	asked asked
	at    time.Time
}

func newDisplay(t *testing.T, width, height int) *display {
	d := &display{T: t, at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)}
	d.model = newModel(&d.asked, "http://127.0.0.1:7800/mcp", func() time.Time { return d.at })
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	return d
}

func (d *display) send(msgs ...tea.Msg) {
	for _, msg := range msgs {
		d.Update(msg)
	}
}

// press presses keys, each named as by bubbletea; a name of one character is that character.
func (d *display) press(names ...string) {
	special := map[string]rune{
		"up": tea.KeyUp, "down": tea.KeyDown, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "esc": tea.KeyEscape,
	}
	for _, name := range names {
		key := tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
		if code, ok := special[name]; ok {
			key = tea.KeyPressMsg{Code: code}
		}
		d.Update(key)
	}
}

// text returns the screen. It fails if the screen is larger than the terminal.
func (d *display) text() string {
	d.Helper()
	lines := d.lines()
	for _, line := range lines {
		if ansi.StringWidth(line) > d.width {
			d.Errorf("%d columns, the terminal has %d: %s", ansi.StringWidth(line), d.width, line)
		}
	}
	if len(lines) > d.height {
		d.Errorf("%d lines, the terminal has %d", len(lines), d.height)
	}
	return strings.Join(lines, "\n")
}

func (d *display) shows(parts ...string) {
	d.Helper()
	text := d.text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			d.Errorf("no %q in\n%s", part, text)
		}
	}
}

func hostStatus(at time.Time, requests ...int64) statusMsg {
	s := status.Status{
		Version: "0.1.0",
		Host:    &status.Host{PID: 4711, StartedAt: at.Add(-time.Hour), RSS: 42 << 20},
		Verdict: status.Verdict{Word: status.Ready, Text: "READY: 2 extensions"},
	}
	for i, n := range requests {
		s.Extensions = append(s.Extensions, status.Extension{
			ID:       fmt.Sprintf("x%d", i),
			State:    "ready",
			Requests: n,
			Errors:   int64(len(requests) - i),
			Latency: &status.Latency{
				P50: protocol.Duration(time.Millisecond),
				P95: protocol.Duration(9 * time.Millisecond),
			},
			Instances: []status.Instance{
				{State: "ready", RSS: int64(i+1) << 20, InFlight: i},
			},
		})
	}
	return statusMsg(s)
}

// TestOverview shows the host, the load of extensions, what needs attention and the latest calls.
func TestOverview(t *testing.T) {
	d := newDisplay(t, 110, 24)
	d.shows("waits for the status of the host")
	d.send(hostStatus(d.at, 0, 100))
	d.at = d.at.Add(2 * time.Second)
	s := hostStatus(d.at, 3, 500)
	dir, err := os.Getwd() // paths below it are shown relative to it
	if err != nil {
		t.Fatal(err)
	}
	s.Verdict = status.Verdict{
		Word: status.Degraded,
		Text: "DEGRADED: " + filepath.Join(dir, "x0") + " is slow (and 1 more)",
		Causes: []status.Obstacle{
			{ID: "x0", Text: "x0 is slow", Next: "exthost logs x0"},
			{ID: "x1", Text: filepath.Join(dir, "x1") + "\x1b[2J hangs", Next: "exthost restart x1"},
		},
	}
	d.send(s, callMsg{Time: d.at, CallEvent: status.CallEvent{
		ID:      7,
		Tool:    "ext_x1_say",
		Outcome: "call_timeout",
		Took:    protocol.Duration(1500 * time.Millisecond),
	}})
	d.shows("pid 4711", "up 1h0m", "202 calls/s", "DEGRADED: x0 is slow", "NEEDS ATTENTION",
		`  x1\u001b[2J hangs; next: exthost restart x1`, "▶ x0", "1.5", "200",
		"LATEST CALLS", "7  ext_x1_say", "call_timeout")
	if strings.Contains(d.text(), "\x1b") {
		t.Errorf("colours, or text of an extension that acts on the terminal: %q", d.text())
	}
	d.send(tea.WindowSizeMsg{Width: 80, Height: 24})
	d.shows("call_timeout         1.5s  anonymous") // the tool gives way
	d.at = d.at.Add(7 * time.Second)
	d.shows("the host has said nothing for 7s")
}

// TestKeys presses each key, and checks what the host is asked: to restart, approve or deny only after y.
func TestKeys(t *testing.T) {
	d := newDisplay(t, 100, 20)
	d.press("r", "t", "up", "a", "a", "esc") // before the first status there is nothing to act on
	d.send(hostStatus(d.at, 1, 2, 3))
	d.press("down", "down", "down", "r")
	d.shows("restart x2?")
	d.press("n", "r", "y")
	d.press("up", "t")
	d.send(frameMsg{Extension: "x1", Sent: true, Time: d.at, Text: `{"method":"ping"}` + "\x1b[2J"},
		frameMsg{Extension: "x2", Text: "other"})
	d.shows("messages of x1", `> {"method":"ping"}\u001b[2J`)
	if strings.Contains(d.text(), "other") {
		t.Error("messages of another extension are shown")
	}
	d.press("r", "esc", "a")
	d.shows("no call waits for an approval")
	d.send(approvalsMsg{
		{
			ID:        "one",
			Tool:      "ext_x_pay",
			Caller:    "ada",
			Policy:    "people",
			Arguments: `{"n":1}`,
			Expires:   d.at.Add(time.Minute),
			AskedIn:   "form 1.0",
		},
		{ID: "two", Tool: "ext_x_send", Policy: "people", Expires: d.at},
	})
	d.shows("▶ ext_x_pay", "ada, policy people", `{"n":1}`, "1m0s left, asked in form 1.0 too")
	d.press("down", "d")
	d.shows("deny ext_x_send of an anonymous caller?")
	d.press("y", "up", "a", "y")
	d.press("esc", "?")
	d.shows("approve or deny one, after y")
	d.press("esc")
	d.send(doneMsg{text: "restarted x2"})
	d.shows("restarted x2")
	d.at = d.at.Add(noteSpan)
	d.send(tickMsg(d.at))
	d.shows("q quit")
	d.send(doneMsg{err: errors.New("no such extension")})
	d.at = d.at.Add(noteSpan)
	d.send(tickMsg(d.at))
	d.shows("no such extension")
	want := []string{"restart x2", "tap x1", "stop x1", "answer two false", "answer one true"}
	if diff := cmp.Diff(want, d.asked.list); diff != "" {
		t.Error(diff)
	}
}

// TestOrder sorts the table, and keeps the cursor on its extension.
func TestOrder(t *testing.T) {
	d := newDisplay(t, 100, 20)
	d.send(hostStatus(d.at, 0, 0, 0))
	d.at = d.at.Add(time.Second)
	d.send(hostStatus(d.at, 5, 50, 20))
	d.press("down")
	for _, want := range []string{"x1 x2 x0", "x0 x1 x2", "x0 x1 x2", "x2 x1 x0", "x0 x1 x2"} {
		d.press("s")
		if got := strings.Join(d.ids(), " "); got != want || d.chosen != "x1" {
			t.Errorf("sorted by %s: %s, want %s; the cursor is on %s", d.order, got, want, d.chosen)
		}
	}
	d.send(hostStatus(d.at, 5))
	if d.chosen != "x0" {
		t.Errorf("the cursor is on %q, which is gone", d.chosen)
	}
}

// TestAnyTerminal draws on terminals of any size, with many extensions, calls and requests.
func TestAnyTerminal(t *testing.T) {
	for _, size := range [][2]int{{1, 1}, {10, 3}, {40, 8}, {80, 24}, {300, 100}} {
		d := newDisplay(t, size[0], size[1])
		d.text()
		d.send(hostStatus(d.at, make([]int64, 200)...))
		for i := range 2 * maxCalls {
			d.send(callMsg{Time: d.at, CallEvent: status.CallEvent{ID: uint64(i), Tool: strings.Repeat("世", 50)}})
		}
		for range 150 {
			d.press("down")
		}
		d.text()
		if size[1] >= 24 {
			d.shows("▶ " + d.chosen)
		}
		d.send(approvalsMsg(slices.Repeat([]exthost.ApprovalRequest{{ID: "a", Reason: "x\ny"}}, 50)))
		for _, key := range []string{"a", "a", "n", "esc", "t", "esc", "?"} {
			d.press(key)
			d.text()
		}
	}
}

// TestManyRows keeps what is under the cursor on the screen, with the whole verdict and all arguments of a call.
func TestManyRows(t *testing.T) {
	d := newDisplay(t, 60, 15)
	s := hostStatus(d.at, make([]int64, 60)...)
	s.Verdict = status.Verdict{
		Word: status.Degraded,
		Text: "DEGRADED: " + strings.Repeat("very ", 20) + "slow; next: wait",
	}
	d.send(s)
	d.shows("next: wait", "▶ x0", "of 60; ↑ ↓ show the others")
	d.press("pgdown", "pgdown", "pgdown", "down")
	d.shows("▶ " + d.chosen)
	d.press("pgdown", "pgdown", "pgdown")
	d.shows("▶ x9")
	d.press("pgup", "pgup", "pgup", "pgup", "pgup", "pgup", "pgup")
	d.shows("▶ x0")
	var waiting approvalsMsg
	for i := range 30 {
		waiting = append(waiting, exthost.ApprovalRequest{
			ID:        fmt.Sprint(i),
			Tool:      fmt.Sprintf("ext_x_pay%d", i),
			Arguments: `{"to":"` + strings.Repeat("a", 150) + fmt.Sprintf(`","n":%d}`, i),
		})
	}
	d.send(waiting)
	d.press("a", "pgdown", "pgdown")
	d.shows("▶ ext_x_pay20", `"n":20}`)
	d.press("pgdown")
	d.shows("▶ ext_x_pay29", `"n":29}`)
}

// TestLoad counts calls a second over the last seconds, and from zero when a host counts anew.
func TestLoad(t *testing.T) {
	var l load
	at := time.Unix(0, 0)
	for i := range 20 {
		s := status.Status(hostStatus(at, int64(10*i)))
		l.add(at, &s)
		at = at.Add(time.Second)
	}
	if got := l.of("x0"); got != 10 || l.of("") != 10 || len(l.samples) > 7 {
		t.Errorf("%v calls a second, %d samples", got, len(l.samples))
	}
	s := status.Status(hostStatus(at, 0))
	if l.add(at, &s); l.of("x0") != 0 || l.of("nobody") != 0 {
		t.Errorf("%v calls a second after the count began again", l.of("x0"))
	}
}

// TestEvents reads the events of the stream.
func TestEvents(t *testing.T) {
	for data, want := range map[string]string{
		`{"version":"0.1.0","extensions":[]}`:           "top.statusMsg",
		`{"kind":"call","call":{"id":1}}`:               "top.callMsg",
		`{"kind":"approvals","approvals":[{"id":"a"}]}`: "top.approvalsMsg",
		`{"kind":"tools","tools":{}}`:                   "<nil>",
		`{`:                                             "an event that cannot be read: unexpected end of JSON input",
	} {
		msg, err := readEvent([]byte(data))
		if got := fmt.Sprintf("%T", msg); got != want && (err == nil || err.Error() != want) {
			t.Errorf("%s: %s, %v", data, got, err)
		}
	}
}
