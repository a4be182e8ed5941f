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
	"time"

	"github.com/exthost/exthost/internal/glob"
	"github.com/exthost/exthost/protocol"
)

// Set is an ordered, immutable collection of handlers. Its zero value and a nil
// one have none. Its methods may be called by many goroutines at once.
type Set struct {
	o        Options
	handlers map[Point][]entry
}

// Options is what a set shares with its owner. The zero value is usable.
type Options struct {
	// Approver answers questions. Default: every question is a denial.
	Approver Approver
	// Observe is told what each handler did, by the goroutine that ran it. Default:
	// nobody is.
	Observe func(e *Event, s Step)
}

// entry is a handler with its matcher read.
type entry struct {
	Handler
	matcher glob.Matcher
}

// NewSet orders the handlers. It panics when a Matcher is no pattern, see
// [CheckMatcher].
func NewSet(o Options, handlers ...Handler) *Set {
	s := &Set{o: o, handlers: make(map[Point][]entry)}
	for _, h := range handlers {
		m, err := glob.ParseMatcher(h.Matcher)
		if err != nil {
			panic(fmt.Sprintf("hooks: matcher of %s: %v", h.Name, err))
		}
		s.handlers[h.Point] = append(s.handlers[h.Point], entry{h.resolved(), m})
	}
	for _, hs := range s.handlers {
		slices.SortStableFunc(hs, func(a, b entry) int { return cmp.Compare(a.Priority, b.Priority) })
	}
	return s
}

// CheckMatcher says why pattern cannot be a Matcher, nil when it can.
func CheckMatcher(pattern string) error {
	_, err := glob.ParseMatcher(pattern)
	return err
}

// Has reports whether anything listens at the point. It allocates nothing, so that
// nothing need be prepared for nobody.
func (s *Set) Has(p Point) bool { return s != nil && len(s.handlers[p]) > 0 }

// Handlers iterates over the handlers, by point, in the order in which they run,
// with their defaults filled in.
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

// Outcome is what the handlers of a point made of an event.
type Outcome struct {
	Payload  json.RawMessage // the event's, or what was made of it
	Changed  bool            // whether Payload differs from the event's
	Decision Decision        // the strongest
	Reason   string          // of the handler that decided, or aborted
	By       string          // its name
	Aborted  bool            // by a handler, so that later ones did not run
	Context  []string        // for the model, in order
	Steps    []Step          // one for each handler that ran
}

// Step is one handler's part in an outcome.
type Step struct {
	Handler   string
	Extension string
	Reply     *Reply
	Err       error // it failed
	Took      time.Duration
}

// Run tells the handlers of e.Point about e, in order; each sees the payload as
// the ones before it left it. A denial ends it. At a gate, and after a tool call,
// whose result it holds back, a denial is an error of kind rejected, as is a
// question that nobody approves, with data as policies give it: policy, code and
// executed. The other errors are the end of ctx.
func (s *Set) Run(ctx context.Context, e *Event) (Outcome, error) {
	out := Outcome{Payload: e.Payload}
	if !s.Has(e.Point) {
		return out, nil
	}
	for i := range s.handlers[e.Point] {
		h := &s.handlers[e.Point][i]
		if !h.concerns(e) {
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
		return out, named(e, protocol.Errorf(protocol.KindOf(err), "given up while hooks ran: %w", err))
	}
	out.Changed = out.Changed && !bytes.Equal(out.Payload, e.Payload)
	return out, s.settle(ctx, e, &out)
}

// Test is Run for an event that is not happening: the handlers really run, and
// questions are put to nobody.
func (s *Set) Test(ctx context.Context, e *Event) (Outcome, error) {
	if s == nil {
		return s.Run(ctx, e)
	}
	alone := *s
	alone.o.Approver = nil
	return alone.Run(ctx, e)
}

// concerns reports whether h listens to e.
func (h *entry) concerns(e *Event) bool {
	if h.Own && h.Extension != e.Extension {
		return false
	}
	names := e.names()
	return names == nil || h.matcher.Match(names...)
}

// step runs one handler on the outcome so far and reports whether the next one is
// to run. e is a copy for the handler alone, which may outlive its time.
func (o *Outcome) step(ctx context.Context, h *entry, e Event) (more bool) {
	e.Payload = o.Payload
	began := time.Now()
	reply, err := h.call(ctx, &e)
	if ctx.Err() != nil && err != nil {
		return false // the handler is not to blame
	}
	if err == nil {
		err = o.apply(e.Point, reply)
	}
	o.Steps = append(o.Steps, Step{Handler: h.Name, Extension: h.Extension, Reply: reply, Err: err, Took: time.Since(began)})
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
	o.decide(h, decision, reply.Reason)
	if reply.Abort {
		o.Aborted, o.Reason, o.By = true, reply.Reason, h.Name
	}
	return !reply.Abort && o.Decision != Deny
}

// decide takes in a decision if it is stronger than those before it.
func (o *Outcome) decide(h *entry, d Decision, reason string) {
	if d.strength() > o.Decision.strength() {
		o.Decision, o.Reason, o.By = d, reason, h.Name
	}
}

// rudeness is how long a handler may take to notice that its time is over, before
// nobody waits for it any more.
const rudeness = 250 * time.Millisecond

// call runs the handler, at most for its timeout.
func (h *entry) call(ctx context.Context, e *Event) (*Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	type answer struct {
		reply *Reply
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		reply, err := h.guarded(ctx, e)
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
	case <-time.After(rudeness):
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, fmt.Errorf("no answer within %v", h.Timeout)
	}
	return nil, ctx.Err()
}

// guarded is Run, surviving its panic.
func (h *entry) guarded(ctx context.Context, e *Event) (reply *Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return h.Run(ctx, e)
}

// PanicError is the failure of a handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // of the handler's goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// settle turns the decision into an error where it is one.
func (s *Set) settle(ctx context.Context, e *Event, o *Outcome) error {
	switch {
	case !e.Point.deniable():
		return nil
	case o.Decision == Deny:
		return rejected(e, o, "rejected", o.Reason)
	case o.Decision != Ask:
		return nil
	case s.o.Approver == nil:
		return rejected(e, o, "approval_unavailable", "it asks for approval, and there is nobody to ask: "+o.Reason)
	}
	asked := *e
	asked.Payload = o.Payload
	if err := s.o.Approver.Approve(ctx, &asked, o.Reason); err != nil {
		return rejected(e, o, "approval_denied", "not approved: "+err.Error())
	}
	return nil
}

func rejected(e *Event, o *Outcome, code, reason string) error {
	err := protocol.Errorf(protocol.Rejected, "hook %s: %s", o.By, cmp.Or(reason, "no reason given"))
	err.Data, _ = json.Marshal(struct { // strings and a bool always encode
		Policy   string `json:"policy"`
		Code     string `json:"code"`
		Executed bool   `json:"executed,omitempty"`
	}{"hook " + o.By, code, e.Point == AfterToolCall})
	return named(e, err)
}

func named(e *Event, err *protocol.Error) error {
	err.Extension, err.Tool = e.Extension, e.Tool
	return err
}
