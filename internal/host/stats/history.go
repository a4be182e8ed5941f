package stats

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/redact"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Bounds of recorded calls.
const (
	keptCalls  = 256     // number of calls
	maxText    = 4 << 10 // shown part of a payload, in bytes
	maxMessage = 512     // shown part of an error's text, in bytes
	maxLine    = 240     // shown part of an error's text on one line, in bytes
	ahead      = 1 << 10 // bytes recorded beyond a bound: a secret across it is masked whole
	maxClient  = 1 << 10 // client info, in bytes
	maxName    = 256     // a name that a caller may choose, in bytes

	mostDenials = 32        // rows of denials
	denialsFor  = time.Hour // how long a denial is among them
)

// History is the record of ended calls: counts by tool, counts over the last hours, and the latest calls with their
// payloads. It also has the open questions to callers. The zero value is ready to use.
type History struct {
	Counters
	Mask func(string) string // masks the known secrets; nil: none

	series series
	each   table[string, series] // by extension or destination

	mu    sync.Mutex // guards the fields below
	ended uint64     // number of calls so far
	ring  [keptCalls]kept
	open  map[*status.Question]struct{}
}

// Ended is a call that has ended.
type Ended struct {
	status.CallEvent
	At                time.Time     // when the call ended
	Entry             bool          // Tool is in the catalog
	Err               error         // nil for a call that succeeded
	Served            time.Duration // how long instances had the call; 0: none had it
	ClientInfo        json.RawMessage
	Request, Response json.RawMessage
}

// kept is a recorded call. Its buffers are reused.
type kept struct {
	at                time.Time
	event             status.CallEvent
	undone            bool // it was denied by a policy that has been changed or started again since
	reason            string
	client            []byte
	request, response payload
}

// payload is the recorded beginning of a payload.
type payload struct {
	text  []byte
	bytes int
}

func (p *payload) keep(raw json.RawMessage) {
	p.text, p.bytes = append(p.text[:0], raw[:min(len(raw), maxText+ahead)]...), len(raw)
}

// End records an ended call, and returns its number.
func (h *History) End(e *Ended) uint64 {
	if e.Method == protocol.MethodToolsCall {
		tool := "" // empty for a destination, whose tools are not in the catalog
		if e.Entry {
			tool = e.Tool
		}
		h.call(e.Extension, tool, e.Outcome, e.Served)
	}
	h.series.at(e.At, hour).add(e.Outcome, e.Served)
	if e.Extension != "" {
		h.each.get(e.Extension).at(e.At, sixHours).add(e.Outcome, e.Served)
	}
	reason := ""
	if e.Err != nil {
		reason = protocol.Reason(e.Err)
		// the one byte more tells [History.message] that the text was cut
		reason = strings.Clone(reason[:min(len(reason), maxMessage+ahead+1)])
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended++
	k := &h.ring[h.ended%keptCalls]
	stages := append(k.event.Stages[:0], e.Stages...)
	k.at, k.event, k.reason = e.At, e.CallEvent, reason
	k.event.ID, k.event.Stages, k.undone = h.ended, stages, false
	for _, name := range []*string{&k.event.Method, &k.event.Tool, &k.event.Caller, &k.event.Protocol, &k.event.Code} {
		*name = display.Cut(*name, maxName)
	}
	k.client = append(k.client[:0], e.ClientInfo[:min(len(e.ClientInfo), maxClient)]...)
	k.request.keep(e.Request)
	k.response.keep(e.Response)
	return h.ended
}

// Calls returns the last n recorded calls, newest first, without their payloads.
func (h *History) Calls(n int) []status.PastCall {
	list := []status.PastCall{}
	for _, k := range h.latest(n) {
		list = append(list, h.describe(&k))
	}
	return list
}

// Recorded is an ended call with what is kept of its payloads.
type Recorded struct {
	status.CallEvent
	Began time.Time
	// as sent and as received; nil for a payload that was not kept whole, and for a result that there was not
	Request, Response json.RawMessage
}

// Recorded returns the last n recorded calls, oldest first. Their payloads are not masked.
func (h *History) Recorded(n int) []Recorded {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []Recorded{}
	first := h.ended - min(h.ended, uint64(max(0, min(n, keptCalls)))) + 1
	for id := first; id <= h.ended; id++ {
		k := &h.ring[id%keptCalls]
		r := Recorded{CallEvent: k.event, Began: k.at.Add(-time.Duration(k.event.Took)), Request: k.request.whole()}
		r.Stages = nil
		if o := k.event.Outcome; o == status.OutcomeOK || o == status.OutcomeToolError {
			r.Response = k.response.whole()
		}
		list = append(list, r)
	}
	return list
}

// Denials returns the denials among the recorded calls, by caller and by what denied them, the latest first. Denials of
// more than an hour ago do not count, nor do those before [History.ForgetDenials].
func (h *History) Denials(now time.Time) (list []status.Denials) {
	type rule struct{ caller, policy, code string }
	at := make(map[rule]int)
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := h.ended; id > 0 && id+keptCalls > h.ended; id-- {
		k := &h.ring[id%keptCalls]
		if !k.event.Outcome.IsDenial() || k.undone || now.Sub(k.at) > denialsFor {
			continue
		}
		key := rule{k.event.Caller, k.event.Policy, cmp.Or(k.event.Code, string(k.event.Outcome))}
		if i, ok := at[key]; ok {
			list[i].Count++
			continue
		}
		at[key] = len(list)
		list = append(list, status.Denials{
			Caller:   key.caller,
			Policy:   key.policy,
			Code:     key.code,
			Count:    1,
			Last:     k.at,
			Tool:     cmp.Or(k.event.Tool, k.event.Method),
			Decision: k.event.Decision,
		})
	}
	return list[:min(len(list), mostDenials)]
}

// ForgetDenials removes the denials of a policy before the given time from [History.Denials]: it may decide otherwise
// since.
func (h *History) ForgetDenials(policy string, before time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.ring {
		k := &h.ring[i]
		k.undone = k.undone || k.event.Policy == policy && k.at.Before(before)
	}
}

// whole returns a copy of the payload; nil if only its beginning is recorded.
func (p payload) whole() json.RawMessage {
	if p.bytes > len(p.text) || p.bytes == 0 {
		return nil
	}
	return json.RawMessage(slices.Clone(p.text))
}

// Excerpt returns the beginning of a payload, with secrets masked.
func (h *History) Excerpt(raw json.RawMessage) *status.Excerpt {
	var p payload
	p.keep(raw)
	return h.excerpt(p)
}

// latest copies the last n calls, so that the lock is not held while they are masked.
func (h *History) latest(n int) (list []kept) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id := h.ended; id > 0 && len(list) < min(n, keptCalls); id-- {
		k := h.ring[id%keptCalls]
		k.client, k.event.Stages = slices.Clone(k.client), slices.Clone(k.event.Stages)
		k.request, k.response = payload{}, payload{}
		list = append(list, k)
	}
	return list
}

// Call returns a call by its number, with its payloads. The error is tool_not_found if the call is no longer
// recorded.
func (h *History) Call(id uint64) (status.PastCall, error) {
	h.mu.Lock()
	k := h.ring[id%keptCalls]
	if id == 0 || k.event.ID != id {
		h.mu.Unlock()
		return status.PastCall{}, protocol.Errorf(protocol.ToolNotFound,
			"call %d is not among the last %d, which are kept", id, keptCalls)
	}
	k.client, k.event.Stages = slices.Clone(k.client), slices.Clone(k.event.Stages)
	k.request, k.response = k.request.copy(), k.response.copy()
	h.mu.Unlock()
	call := h.describe(&k)
	call.Request = h.excerpt(k.request)
	if call.Outcome == status.OutcomeOK || call.Outcome == status.OutcomeToolError {
		call.Response = h.excerpt(k.response)
	}
	return call, nil
}

func (h *History) describe(k *kept) status.PastCall {
	c := status.PastCall{Time: k.at, CallEvent: k.event}
	c.Client, c.Message = ClientName(k.client), h.message(k.reason)
	return c
}

// Message returns the text of err for display, masked and shortened; "" for nil.
func (h *History) Message(err error) string {
	if err == nil {
		return ""
	}
	return h.message(protocol.Reason(err))
}

// Line returns the text of err on one line of at most [maxLine] bytes, masked and without control characters.
func (h *History) Line(err error) string {
	line := strings.Join(strings.Fields(display.Visible(h.Message(err))), " ")
	// hidden characters may have split a secret
	return display.Cut(h.masked(line, false, maxMessage), maxLine)
}

func (h *History) message(reason string) string {
	return h.masked(reason[:min(len(reason), maxMessage+ahead)], len(reason) > maxMessage+ahead, maxMessage)
}

func (p payload) copy() payload { return payload{slices.Clone(p.text), p.bytes} }

func (h *History) excerpt(of payload) *status.Excerpt {
	return &status.Excerpt{
		Text:  h.masked(string(of.text), of.bytes > len(of.text), maxText),
		Bytes: of.bytes,
		Cut:   of.bytes > maxText,
	}
}

// masked returns the beginning of text, masked and shortened to most bytes. It masks before it cuts, because a cut
// could hide part of a secret from the mask. cut says that text itself was cut: then its last bytes may be part of a
// secret and are never returned, even if masks have shortened the rest.
func (h *History) masked(text string, cut bool, most int) string {
	if h.Mask != nil {
		text = h.Mask(text)
	}
	text, _ = redact.Default().Text(text)
	if cut {
		text = text[:max(0, len(text)-ahead)]
	}
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// idleSteps is the number of steps for which a sample of an idle host counts: querying every process is most of
// the work of such a host.
const idleSteps = 6

// Sample records the load in each step of the history until ctx ends: the memory of the processes in bytes, and the
// calls in flight and queued. idle reports whether nothing has changed since idle was last called and no call is in
// flight; the last load is then reused for up to a minute, unless a call has ended. Call Sample once.
func (h *History) Sample(ctx context.Context, load func() (memory, busy int64), idle func() bool) {
	tick := time.NewTicker(hour.step)
	defer tick.Stop()
	var memory, busy int64
	var calls uint64 // number of ended calls at the last load
	for stands := 0; ; stands-- {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if ended := h.count(); !idle() || ended != calls || busy > 0 || stands <= 0 {
			memory, busy = load()
			stands, calls = idleSteps, ended
		}
		h.series.sample(time.Now(), memory, busy)
	}
}

// count returns the number of ended calls.
func (h *History) count() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended
}

// Series returns the counts of the last hour, or those of an extension or destination of the last six hours, in
// longer steps and without load samples.
func (h *History) Series(extension string) status.History {
	if extension == "" {
		return h.series.history(time.Now(), hour)
	}
	s := h.each.all()[extension]
	if s == nil {
		s = new(series)
	}
	return s.history(time.Now(), sixHours)
}

// Clients adds the clients without a session among the latest calls to sessions, latest first, and sets the last
// call of each session.
func (h *History) Clients(sessions []status.Client) []status.Client {
	bySession := make(map[string]int, len(sessions))
	for i, c := range sessions {
		bySession[c.Session] = i
	}
	known := make(map[status.Client]bool)
	for _, call := range h.Calls(keptCalls) {
		c := status.Client{Name: call.Client, Caller: call.Caller, Protocol: call.Protocol, Session: call.Session}
		if i, ok := bySession[call.Session]; ok && sessions[i].LastCall == nil {
			sessions[i].LastCall = &call.Time
		}
		if c.Session != "" || c.Protocol == "" || known[c] { // of a session, or of a Go program
			continue
		}
		known[c] = true
		c.LastCall = &call.Time
		sessions = append(sessions, c)
	}
	return sessions
}

// ClientName returns the name and version in MCP's clientInfo, "" without a name.
func ClientName(clientInfo []byte) string {
	var info struct{ Name, Version string }
	if json.Unmarshal(clientInfo, &info) != nil {
		return ""
	}
	name, version := info.Name[:min(len(info.Name), 128)], info.Version[:min(len(info.Version), 64)]
	return strings.ToValidUTF8(strings.TrimSpace(name+" "+version), "")
}

// Asked records a question to the caller of a call until answered is called. The connections of extensions bound the
// number of open questions.
func (h *History) Asked(q status.Question) (answered func()) {
	q.Since = time.Now()
	for _, name := range []*string{&q.Method, &q.Tool, &q.Caller} {
		*name = display.Cut(*name, maxName)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = make(map[*status.Question]struct{})
	}
	h.open[&q] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.open, &q)
	}
}

// Questions returns the unanswered questions, oldest first.
func (h *History) Questions() []status.Question {
	h.mu.Lock()
	list := make([]status.Question, 0, len(h.open))
	for q := range h.open {
		list = append(list, *q)
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b status.Question) int { return a.Since.Compare(b.Since) })
	return list[:min(len(list), keptCalls)]
}
