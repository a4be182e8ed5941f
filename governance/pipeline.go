// Package governance decides, changes and records what passes between callers
// and extensions. A [Pipeline] is immutable; [Pipeline.Govern] is the only way
// through it.
package governance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Defaults of Options, used where they state 0.
const (
	DefaultChainTimeout = 10 * time.Second
	DefaultMaxJSON      = 16 << 20
)

// Options is what a pipeline shares with its owner. The zero value is usable.
type Options struct {
	// Approver answers the questions of policies. Default: every answer is no.
	Approver Approver
	// ChainTimeout bounds what all policies together take for one flow of one
	// exchange, beside the timeout of each. Questions to people do not count.
	// Default: DefaultChainTimeout.
	ChainTimeout time.Duration
	// MaxJSON bounds what a policy may make of a request or a response, in bytes.
	// Default: DefaultMaxJSON.
	MaxJSON int
	// Traces keeps how decisions came about. Default: nothing is kept.
	Traces *Traces
	// Observe is told of each step, by the goroutine that took it: it must be quick.
	Observe func(Observation)
	// Log receives what policies do wrong. Default: nobody.
	Log *slog.Logger
}

// Pipeline asks policies in order: by category, priority and name. Its zero value
// lets everything pass and costs nothing. Its methods may be called by many
// goroutines at once.
type Pipeline struct {
	o       Options
	members []*member
	flows   map[Flow]chain
	audit   []*member // of either flow

	under   gate            // exchanges and observers under way
	running context.Context // ends with Close; of observers that nobody waits for, and of questions
	stop    context.CancelFunc
}

// chain is who is asked about one flow.
type chain struct {
	waited   []*member // observers that the exchange waits for
	detached []*member // and those it does not
	body     []*member // authentication to content
}

// NewPipeline returns a pipeline of the members that are not disabled, in the
// order of their specs. It normalizes the specs, and panics when a member has no
// policy or no category. An owner whose pipeline has members calls Close.
func NewPipeline(o Options, members ...Member) *Pipeline {
	if o.ChainTimeout <= 0 {
		o.ChainTimeout = DefaultChainTimeout
	}
	if o.MaxJSON <= 0 {
		o.MaxJSON = DefaultMaxJSON
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pipeline{o: o, flows: make(map[Flow]chain)}
	p.running, p.stop = context.WithCancel(context.Background())
	for _, m := range members {
		if m.normalize(); !m.Spec.Disabled {
			p.members = append(p.members, newMember(m))
		}
	}
	slices.SortStableFunc(p.members, (*member).compare)
	for _, flow := range []Flow{Request, Response} {
		var c chain
		for _, m := range p.members {
			switch {
			case !m.handles(flow) || m.spec.Category == Audit:
			case m.spec.Category != Observability:
				c.body = append(c.body, m)
			case m.inert:
				c.detached = append(c.detached, m)
			default:
				c.waited = append(c.waited, m)
			}
		}
		p.flows[flow] = c
	}
	for _, m := range p.members {
		if m.spec.Category == Audit {
			p.audit = append(p.audit, m)
		}
	}
	return p
}

// Leg is a part of an exchange's way that its owner takes it.
type Leg func(ctx context.Context, x *Exchange) error

// ErrClosed says that a pipeline was asked after its Close had ended: nothing was
// decided and nothing sent. An owner that has a newer pipeline asks that one.
var ErrClosed = errors.New("the pipeline has been closed")

// Govern takes x through the policies: those of the request flow, then send, then
// those of the response flow, then the legs of after, in their order, then audit.
// send runs at most once, and never after a denial; what it fails with goes back
// through observability and, when it is the extension's own error, content. The
// legs of after see only what the response flow let pass. A notification has
// no response flow and no legs after it. Audit runs whatever happened, a panic of
// send included. A send that returns an error once x.Verdict is a denial, as that
// of [Pipeline.Again], has refused x: it goes to audit at once.
//
// x.Response is the result when Govern returns nil. Its errors are
// *protocol.Error: that of send, rejected for a denial, governance_unavailable
// when a required policy could not decide, and shutting_down with [ErrClosed].
func (p *Pipeline) Govern(ctx context.Context, x *Exchange, send Leg, after ...Leg) error {
	x.ID, x.Response, x.Failure, x.Verdict = "", nil, nil, Verdict{}
	if len(p.members) == 0 {
		return ungoverned(ctx, x, send, after)
	}
	if !p.under.enter() {
		return protocol.Errorf(protocol.ShuttingDown, "policies are stopping: %w", ErrClosed)
	}
	defer p.under.leave()
	g := p.begin(x)
	ctx = context.WithValue(ctx, passageKey{}, g)
	returned := false
	defer func() {
		if !returned {
			g.fail(protocol.Errorf(protocol.ExtensionError, "%s did not return: the host is at fault", x.Method))
			_ = g.finish(ctx) // the panic goes on
		}
	}()
	err := g.carry(ctx, send, after)
	returned = true
	if err != nil {
		g.fail(err)
	}
	return g.finish(ctx)
}

func ungoverned(ctx context.Context, x *Exchange, send Leg, after []Leg) error {
	err := send(ctx, x)
	if x.Notify || err != nil && len(after) == 0 {
		return err
	}
	if err != nil {
		x.Failure, x.Response = asError(err), nil
	}
	for _, leg := range after {
		if err := leg(ctx, x); err != nil {
			return err
		}
	}
	return err
}

// Again takes what a hook changed in x once more through authorization, validation
// and content of the flow. The legs of Govern call it, with the context they were
// given, after they have put the change into x, and return its error as it is.
func (p *Pipeline) Again(ctx context.Context, flow Flow, x *Exchange) error {
	if len(p.members) == 0 {
		return nil
	}
	g, ok := ctx.Value(passageKey{}).(*passage)
	if !ok || g.x != x {
		g = p.begin(x)
		g.sent = flow == Response
	}
	return g.again(ctx, flow)
}

// Test takes the request flow of x without sending it, and returns how it went and
// the refusal that sending would have met. Nobody is asked, audit does not run, and
// the trace is not kept; policies that count do count it.
func (p *Pipeline) Test(ctx context.Context, x *Exchange) (Trace, error) {
	if !p.under.enter() {
		return Trace{}, protocol.Errorf(protocol.ShuttingDown, "policies are stopping: %w", ErrClosed)
	}
	defer p.under.leave()
	g := p.begin(x)
	g.trial = true
	err := g.decide(ctx, Request)
	if err != nil {
		g.fail(err)
	}
	g.record.end(x, false)
	return g.record.snapshot(), err
}

// Visible reports whether all policies let the caller see the tool in lists.
func (p *Pipeline) Visible(caller, extension, tool string) bool {
	x := Exchange{Method: protocol.MethodToolsCall, Caller: caller, Extension: extension, Tool: tool, ToChild: true}
	for _, m := range p.members {
		if v, ok := m.policy.(Visibler); ok && !m.inert && m.spec.Match.fits(&x) && !visible(v, &x) {
			return false
		}
	}
	return true
}

func visible(v Visibler, x *Exchange) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return v.Visible(x.Caller, x.Extension, x.Tool)
}

// Close waits until the exchanges and observers under way have ended, and refuses
// later ones with [ErrClosed]; exchanges that begin while others are under way, as
// their parts do, are still governed. When ctx ends first it stops observers and
// questions and returns its error. It does not close the policies: another pipeline may have
// them.
func (p *Pipeline) Close(ctx context.Context) error {
	err := p.under.close(ctx)
	if p.stop != nil {
		p.stop()
	}
	return err
}
