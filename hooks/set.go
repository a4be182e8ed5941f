package hooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Set is an ordered, immutable collection of handlers. A nil Set and the zero value are
// empty. Its methods are safe for concurrent use.
type Set struct {
	o        Options
	handlers map[Point][]entry
}

// Options configure a set. The zero value is usable.
type Options struct {
	// Approver asks people. Default: every request is denied.
	Approver Approver
	// Observe is called after each handler, on its goroutine. Default: none.
	Observe func(e *Event, s Step)
}

// entry is a handler with its parsed matcher.
type entry struct {
	Handler
	matcher glob.Matcher
}

// NewSet returns a set of the handlers. It panics for an invalid Matcher; see
// [CheckMatcher].
func NewSet(o Options, handlers ...Handler) *Set {
	s := &Set{o: o, handlers: make(map[Point][]entry)}
	for _, h := range handlers {
		m, err := glob.ParseMatcher(h.Matcher)
		if err != nil {
			panic(fmt.Sprintf("hooks: matcher of %s: %v", h.Name, err))
		}
		s.handlers[h.Point] = append(s.handlers[h.Point], entry{h.withDefaults(), m})
	}
	for _, hs := range s.handlers {
		slices.SortStableFunc(hs, func(a, b entry) int { return cmp.Compare(a.Priority, b.Priority) })
	}
	return s
}

// CheckMatcher returns an error when pattern is not a valid Matcher.
func CheckMatcher(pattern string) error {
	_, err := glob.ParseMatcher(pattern)
	return err
}

// Has reports whether there is a handler for the point. It does not allocate. Callers use
// it to skip preparing an event.
func (s *Set) Has(p Point) bool { return s != nil && len(s.handlers[p]) > 0 }

// Handlers iterates over the handlers by point, in the order in which they run, with their
// defaults filled in.
func (s *Set) Handlers() iter.Seq[Handler] {
	return func(yield func(Handler) bool) {
		for _, p := range points {
			if s == nil {
				return
			}
			for _, h := range s.handlers[p] {
				if !yield(h.Handler) {
					return
				}
			}
		}
	}
}

// Outcome is the combined result of the handlers of a point.
type Outcome struct {
	Payload  json.RawMessage // the payload after all handlers
	Changed  bool            // Payload differs from the event's
	Decision Decision        // the strongest
	Reason   string          // of the handler that decided or aborted
	By       string          // the name of that handler
	Asking   protocol.Asking // for Ask: the most cautious of the handlers
	Aborted  bool            // a handler aborted, so later ones did not run
	Context  []string        // texts for the model, in order
	Steps    []Step          // one per handler that ran
}

// Step is the result of one handler.
type Step struct {
	Handler   string
	Extension string
	Reply     *Reply
	Err       error // the handler failed
	Took      time.Duration
}

// Run runs the handlers of e.Point in order; each gets the payload as changed by those before it. A denial ends the
// run. At gates and after a tool call, a denial is an error of kind rejected; after a call, the error also withholds
// the result. An approval request that is not approved is such an error too. The error's data has the members of a
// policy's denial: policy, code and executed. The only other errors are those of ctx.
func (s *Set) Run(ctx context.Context, e *Event) (Outcome, error) {
	out := Outcome{Payload: e.Payload}
	if !s.Has(e.Point) {
		return out, nil
	}
	for i := range s.handlers[e.Point] {
		h := &s.handlers[e.Point][i]
		if !h.matches(e) {
			continue
		}
		more := out.step(ctx, h, *e)
		if n := len(out.Steps); n > 0 && s.o.Observe != nil {
			s.o.Observe(e, out.Steps[n-1])
		}
		if !more || ctx.Err() != nil {
			break
		}
	}
	if err := ctx.Err(); err != nil && out.Decision != Deny {
		return out, e.blame(protocol.Errorf(protocol.KindOf(err), "given up while hooks ran: %w", err))
	}
	out.Changed = out.Changed && !bytes.Equal(out.Payload, e.Payload)
	return out, s.resolve(ctx, e, &out)
}

// Test is Run for a hypothetical event: the handlers run, but no person is asked.
func (s *Set) Test(ctx context.Context, e *Event) (Outcome, error) {
	if s == nil {
		return s.Run(ctx, e)
	}
	alone := *s
	alone.o.Approver = nil
	return alone.Run(ctx, e)
}

func (h *entry) matches(e *Event) bool {
	if h.Own && h.Extension != e.Extension && !slices.Contains(h.Servers, e.Extension) {
		return false
	}
	names := e.names()
	if names != nil && h.Extension != "" {
		names = append(names, e.clientNames()...)
	}
	return names == nil || h.matcher.Match(names...)
}

// names returns the names that a matcher at e's point is compared with, nil where it is
// ignored.
func (e *Event) names() []string {
	switch e.Point {
	case BeforeToolCall, AfterToolCall, ToolCallFailed:
		all := []string{e.Tool, "mcp__" + e.Extension + "__" + e.OwnName}
		if at := strings.LastIndexByte(e.Extension, '.'); at >= 0 { // other clients of .mcp.json use the server's name
			all = append(all, "mcp__"+e.Extension[at+1:]+"__"+e.OwnName)
		}
		return all
	case ExtensionLoad, ExtensionState:
		return []string{e.Extension}
	case SessionStart:
		return []string{e.text("source")}
	case SessionEnd:
		return []string{e.text("reason")}
	}
	return nil
}

// clientNames returns the names that Claude Code, Gemini CLI and Cursor give the tool of e when its extension is a
// plugin, or a server of one: the matchers of hooks that come with plugins have them. It returns none at points without
// a tool.
func (e *Event) clientNames() []string {
	if e.Point != BeforeToolCall && e.Point != AfterToolCall && e.Point != ToolCallFailed {
		return nil
	}
	plugin, server := e.Extension, e.Extension
	if at := strings.LastIndexByte(e.Extension, '.'); at >= 0 {
		plugin, server = e.Extension[:at], e.Extension[at+1:]
	}
	return []string{
		"mcp__plugin_" + plugin + "_" + server + "__" + e.OwnName,
		"mcp_" + server + "_" + e.OwnName,
		"MCP:" + e.OwnName,
	}
}

func (e *Event) text(key string) string {
	s, _ := rawjson.Text(rawjson.Get(e.Payload, key))
	return s
}

// step runs one handler and reports whether the next one runs. e is a copy, because a
// handler may keep running after its timeout.
func (o *Outcome) step(ctx context.Context, h *entry, e Event) (more bool) {
	e.Payload = o.Payload
	began := time.Now()
	reply, err := h.call(ctx, &e)
	if ctx.Err() != nil && err != nil {
		return false // the caller canceled, so the handler has not failed
	}
	if err == nil {
		err = o.apply(e.Point, reply)
	}
	o.Steps = append(o.Steps, Step{
		Handler:   h.Name,
		Extension: h.Extension,
		Reply:     reply,
		Err:       err,
		Took:      time.Since(began),
	})
	switch {
	case err != nil && h.OnError == DenyOnError:
		o.decide(h, Deny, fmt.Sprintf("it failed: %v", err))
		return false
	case err != nil || reply == nil:
		return true
	}
	if reply.Context != "" {
		o.Context = append(o.Context, reply.Context)
	}
	decision := reply.Decision
	if reply.Abort && e.Point.Gate() {
		decision = Deny
	}
	if decision == Ask {
		o.ask(reply.Asking)
	}
	o.decide(h, decision, reply.Reason)
	if reply.Abort {
		o.Aborted, o.Reason, o.By = true, reply.Reason, h.Name
	}
	return !reply.Abort && o.Decision != Deny
}

// ask records how a handler wants a person to be asked.
func (o *Outcome) ask(how protocol.Asking) {
	if o.Decision == Ask {
		how = how.Stricter(o.Asking)
	}
	o.Asking = how
}

// decide records a decision that is stronger than the previous ones.
func (o *Outcome) decide(h *entry, d Decision, reason string) {
	if d.strength() > o.Decision.strength() {
		o.Decision, o.Reason, o.By = d, reason, h.Name
	}
}

// handlerGrace is the time that a handler gets to return after its timeout, before it is
// abandoned.
const handlerGrace = 250 * time.Millisecond

// call runs the handler for at most its timeout.
func (h *entry) call(ctx context.Context, e *Event) (*Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	type answer struct {
		reply *Reply
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		reply, err := h.runRecovered(ctx, e)
		answered <- answer{reply, err}
	}()
	select {
	case a := <-answered:
		return a.reply, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		if a.err == nil {
			return a.reply, nil
		}
	case <-time.After(handlerGrace):
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("no answer within %v", h.Timeout)
	}
	return nil, ctx.Err()
}

// runRecovered is Run with a panic converted to an error.
func (h *entry) runRecovered(ctx context.Context, e *Event) (reply *Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return h.Run(ctx, e)
}

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // of the handler's goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// resolve returns the error of the combined decision, if any, and asks the approver.
func (s *Set) resolve(ctx context.Context, e *Event, o *Outcome) error {
	switch {
	case !e.Point.deniable():
		return nil
	case o.Decision == Deny:
		return o.rejected(e, "rejected", o.Reason)
	case o.Decision != Ask:
		return nil
	case s.o.Approver == nil:
		return o.rejected(e, "approval_unavailable", "it asks for approval, and there is nobody to ask: "+o.Reason)
	}
	asked := *e
	asked.Payload = o.Payload
	if err := s.o.Approver.Approve(ctx, &asked, *o); err != nil {
		return o.rejected(e, "approval_denied", "not approved: "+err.Error())
	}
	return nil
}

// rejected returns the error of a denial.
func (o *Outcome) rejected(e *Event, code, reason string) error {
	err := protocol.Errorf(protocol.Rejected, "hook %s: %s", o.By, cmp.Or(reason, "no reason given"))
	err.Data, _ = json.Marshal(struct { // strings and a bool always encode
		Policy   string `json:"policy"`
		Code     string `json:"code"`
		Executed bool   `json:"executed,omitempty"`
	}{"hook " + o.By, code, e.Point == AfterToolCall})
	return e.blame(err)
}

// blame adds the extension and tool of the event to err.
func (e *Event) blame(err *protocol.Error) error {
	err.Extension, err.Tool = e.Extension, e.Tool
	return err
}
