//go:build !slim

package top

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/status"
)

// operator does what keys ask for. Its methods return at once; what comes of them arrives as messages.
type operator interface {
	restart(id string)
	answer(id string, approve bool)
	tap(id string) (stop func())
}

// Messages of the host.
type (
	statusMsg    status.Status
	callMsg      status.PastCall
	approvalsMsg []exthost.ApprovalRequest
	frameMsg     status.Frame
	tickMsg      time.Time
	endedMsg     struct{ err error }
	doneMsg      struct { // of a request: what was done, or why not
		text string
		err  error
	}
)

// Bounds of what is kept.
const (
	maxCalls  = 256
	maxFrames = 512
	maxText   = 1024 // of a frame, in characters
)

// noteSpan is how long a note stays if no key takes it away. Notes of errors stay.
const noteSpan = 5 * time.Second

// screen is what is shown.
type screen int

const (
	overview  screen = iota
	messages         // of one extension
	approvals        // calls that wait
	keys             // the help
)

// model is the state of the screen. It is changed by Update alone.
type model struct {
	operator operator
	serves   string // the URL for MCP clients
	now      func() time.Time
	colours  bool

	width, height int
	shows         screen
	status        *status.Status // nil before the first
	seen          time.Time      // when it came
	load          load
	calls         []status.PastCall         // ended, the oldest first
	waiting       []exthost.ApprovalRequest // the oldest first
	order         order
	chosen        string // id of the extension under the cursor
	request       string // id of the approval request under the cursor
	tapped        string // id of the extension whose messages are shown
	stopTap       func()
	frames        []status.Frame // the oldest first
	ask           *question
	note          string    // what the last key led to
	noted         time.Time // when
	failed        bool      // the note is of an error
	ended         error     // why the host is no longer shown
}

// question asks before something is done.
type question struct {
	text string
	yes  func()
}

func newModel(o operator, serves string, now func() time.Time) *model {
	return &model{operator: o, serves: serves, now: now, stopTap: func() {}}
}

// tick keeps spans of time true while no event comes.
func tick() tea.Cmd { return tea.Tick(time.Second, func(at time.Time) tea.Msg { return tickMsg(at) }) }

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd { return tick() }

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		if !m.failed && m.now().Sub(m.noted) >= noteSpan {
			m.note = ""
		}
		return m, tick()
	case statusMsg:
		s := status.Status(msg)
		m.status, m.seen = &s, m.now()
		m.load.add(m.seen, &s)
		m.chosen = step(m.ids(), m.chosen, 0)
	case callMsg:
		m.calls = keepLast(append(m.calls, status.PastCall(msg)), maxCalls)
	case approvalsMsg:
		m.waiting = msg
		m.request = step(m.requests(), m.request, 0)
	case frameMsg:
		if msg.Extension == m.tapped {
			msg.Text = console.Cut(msg.Text, maxText)
			m.frames = keepLast(append(m.frames, status.Frame(msg)), maxFrames)
		}
		if msg.Lost > 0 {
			m.say(console.Count(msg.Lost, "message") + " lost, as this terminal is too slow")
		}
	case doneMsg:
		if m.say(msg.text); msg.err != nil {
			m.note, m.failed = console.Describe(msg.err), true
		}
	case endedMsg:
		m.ended = msg.err
		return m, tea.Quit
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	}
	return m, nil
}

func (m *model) say(note string) { m.note, m.noted, m.failed = note, m.now(), false }

// keepLast returns the last n elements.
func keepLast[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// key acts on a key.
func (m *model) key(key string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	if m.ask != nil {
		if key == "y" {
			m.ask.yes()
		}
		m.ask = nil
		return nil
	}
	m.say("")
	switch key {
	case "q":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	}
	if act := actions[key]; act != nil {
		act(m)
	}
	return nil
}

// page is how many rows the keys for pages move the cursor.
const page = 10

// actions are what keys do that do not end or suspend the program.
var actions = map[string]func(m *model){
	"esc":  func(m *model) { m.show(overview) },
	"?":    func(m *model) { m.show(keys) },
	"up":   func(m *model) { m.move(-1) },
	"k":    func(m *model) { m.move(-1) },
	"down": func(m *model) { m.move(1) },
	"j":    func(m *model) { m.move(1) },

	"pgup":   func(m *model) { m.move(-page) },
	"pgdown": func(m *model) { m.move(page) },

	"s": func(m *model) { m.order = (m.order + 1) % orders },
	"r": (*model).askRestart,
	"t": (*model).startTap,
	"d": func(m *model) { m.askAnswer(false) },
	"a": func(m *model) {
		if m.shows == approvals {
			m.askAnswer(true)
		} else {
			m.show(approvals)
		}
	},
}

func (m *model) show(s screen) {
	if s != messages {
		m.stopTap()
		m.stopTap, m.tapped, m.frames = func() {}, "", nil
	}
	m.shows = s
}

func (m *model) askRestart() {
	if id := m.chosen; id != "" && m.shows == overview {
		m.ask = &question{fmt.Sprintf("restart %s?", id), func() {
			m.say("restarts " + id)
			m.operator.restart(id)
		}}
	}
}

func (m *model) askAnswer(approve bool) {
	at := slices.IndexFunc(m.waiting, func(q exthost.ApprovalRequest) bool { return q.ID == m.request })
	if at < 0 || m.shows != approvals {
		return
	}
	q, verb := m.waiting[at], "deny"
	if approve {
		verb = "approve"
	}
	text := fmt.Sprintf("%s %s of %s?", verb, cmp.Or(q.Tool, q.Method), cmp.Or(q.Caller, "an anonymous caller"))
	m.ask = &question{text, func() { m.operator.answer(q.ID, approve) }}
}

func (m *model) startTap() {
	if m.chosen == "" || m.shows != overview {
		return
	}
	m.show(messages)
	m.tapped = m.chosen
	m.stopTap = m.operator.tap(m.chosen)
}

// move moves the cursor by n rows.
func (m *model) move(n int) {
	if m.shows == approvals {
		m.request = step(m.requests(), m.request, n)
	} else {
		m.chosen = step(m.ids(), m.chosen, n)
	}
}

// step returns the id n rows below at, within the rows: the first one if at is gone and n is 0, "" if there is none.
func step(ids []string, at string, n int) string {
	if len(ids) == 0 {
		return ""
	}
	return ids[min(max(slices.Index(ids, at)+n, 0), len(ids)-1)]
}

func (m *model) requests() (ids []string) {
	for _, q := range m.waiting {
		ids = append(ids, q.ID)
	}
	return ids
}

// ids returns the extensions and destinations in the order of the table.
func (m *model) ids() (ids []string) {
	for _, x := range m.workers() {
		ids = append(ids, x.ID)
	}
	return ids
}

// order is what the table is sorted by.
type order int

const (
	byID order = iota
	byRate
	byErrors
	byLatency
	byMemory
	orders
)

func (o order) String() string {
	return [orders]string{"id", "calls a second", "errors", "P95", "memory"}[o]
}

// workers returns the extensions and destinations in the order of the table.
func (m *model) workers() []status.Extension {
	if m.status == nil {
		return nil
	}
	all := slices.Clone(m.status.Extensions)
	for _, d := range m.status.Destinations {
		all = append(all, d.Extension)
	}
	slices.SortStableFunc(all, func(a, b status.Extension) int {
		least := 0
		switch m.order {
		case byRate:
			least = cmp.Compare(m.load.of(b.ID), m.load.of(a.ID))
		case byErrors:
			least = cmp.Compare(failures(&b), failures(&a))
		case byLatency:
			least = cmp.Compare(p95(&b), p95(&a))
		case byMemory:
			least = cmp.Compare(memory(&b), memory(&a))
		}
		return cmp.Or(least, cmp.Compare(a.ID, b.ID))
	})
	return all
}

func failures(x *status.Extension) int64 { return x.Errors + x.Refused + x.Invalid }

func p95(x *status.Extension) time.Duration {
	if x.Latency == nil {
		return 0
	}
	return time.Duration(x.Latency.P95)
}

func memory(x *status.Extension) (bytes int64) {
	for _, i := range x.Instances {
		bytes += i.RSS
	}
	return bytes
}

func inFlight(x *status.Extension) (n int) {
	for _, i := range x.Instances {
		n += i.InFlight + i.Queued
	}
	return n
}
