// Package governance decides, changes and records the exchanges between callers and
// extensions. A [Pipeline] is immutable; [Pipeline.Govern] is the only way through it.
package governance

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/protocol"
)

// Defaults of the fields of Options that are 0.
const (
	DefaultChainTimeout = 10 * time.Second
	DefaultMaxJSON      = 16 << 20
)

// Options configure a pipeline. The zero value is usable.
type Options struct {
	// Approver answers the approval requests of policies. Default: every request is denied.
	Approver Approver
	// ChainTimeout bounds the time of all policies together for one flow of one exchange; each
	// policy also has its own timeout. The time that a person takes to approve does not count.
	// Default: DefaultChainTimeout, and what the timeouts of the policies of that flow exceed
	// DefaultTimeout by.
	ChainTimeout time.Duration
	// MaxJSON bounds a request or response that a policy has changed, in bytes. Default:
	// DefaultMaxJSON.
	MaxJSON int
	// Traces keeps the latest decision traces. Default: none are kept.
	Traces *Traces
	// Observe is called for each step on the goroutine of the exchange, so it must be
	// quick.
	Observe func(Observation)
	// Log receives the errors of policies. Default: discarded.
	Log *slog.Logger
}

// Pipeline asks policies in order of category, layer, priority and name. Its zero value allows
// everything without allocating. Its methods are safe for concurrent use.
type Pipeline struct {
	o       Options
	members []*member
	flows   map[Flow]chain
	audit   []*member // both flows

	under   concurrent.Gate // exchanges and detached observers in progress
	running context.Context // canceled by Close; detached observers and approval requests use it
	stop    context.CancelFunc
}

// chain holds the members that are asked about one flow.
type chain struct {
	awaited  []*member     // observers that the exchange waits for
	detached []*member     // observers that run in the background
	deciding []*member     // authentication to content
	limit    time.Duration // of all of them together, audit policies included
}

// NewPipeline returns a pipeline of the members that are not disabled. It normalizes their
// specs, and panics when a member has no policy or no category. The owner of a pipeline
// with members calls Close.
func NewPipeline(o Options, members ...Member) *Pipeline {
	if o.MaxJSON <= 0 {
		o.MaxJSON = DefaultMaxJSON
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	p := &Pipeline{o: o, flows: make(map[Flow]chain)}
	p.running, p.stop = context.WithCancel(context.Background())
	for _, m := range members {
		if m.normalize(); !m.Spec.Disabled {
			p.members = append(p.members, newMember(m))
		}
	}
	slices.SortStableFunc(p.members, func(a, b *member) int { return a.spec.Order(&b.spec) })
	for _, flow := range []Flow{Request, Response} {
		c := chain{limit: o.chainTimeout(p.members, flow)}
		for _, m := range p.members {
			switch {
			case !m.handles(flow) || m.spec.Category == Audit:
			case m.spec.Category != Observability:
				c.deciding = append(c.deciding, m)
			case m.shadowed:
				c.detached = append(c.detached, m)
			default:
				c.awaited = append(c.awaited, m)
			}
		}
		p.flows[flow] = c
	}
	p.audit = slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m.spec.Category != Audit })
	return p
}

// chainTimeout returns the time that members together have for a flow.
func (o *Options) chainTimeout(members []*member, flow Flow) time.Duration {
	if o.ChainTimeout > 0 {
		return o.ChainTimeout
	}
	limit := DefaultChainTimeout
	for _, m := range members {
		if m.handles(flow) {
			limit += max(0, m.spec.Timeout-DefaultTimeout)
		}
	}
	return limit
}

// Stage is a step of an exchange that the caller of Govern supplies.
type Stage func(ctx context.Context, x *Exchange) error

// ErrClosed is wrapped by the errors of a closed pipeline: nothing was decided and nothing was
// sent. If the owner has built a newer pipeline, it retries with that one.
var ErrClosed = errors.New("the pipeline has been closed")

// Govern runs the policies of the request flow, send, the policies of the response flow,
// the stages of after in their order, and audit.
//
// send runs at most once, and never after a denial. When send fails with an error of the extension,
// the policies of the response flow decide about that error. When it fails with an error of the
// host that may quote the extension, only content policies decide about it. The stages of after run
// only when the response flow allowed the exchange. A notification has neither response flow nor
// stages. Audit always runs, even when send panics. When send returns an error after a denial by
// [Pipeline.Again], only audit follows.
//
// When Govern returns nil, x.Response is the result. Its errors are *protocol.Error: the
// error of send, rejected for a denial, governance_unavailable when a required policy could
// not decide, or shutting_down with [ErrClosed].
func (p *Pipeline) Govern(ctx context.Context, x *Exchange, send Stage, after ...Stage) error {
	x.ID, x.Response, x.Failure, x.Verdict = "", nil, nil, Verdict{}
	if len(p.members) == 0 {
		return ungoverned(ctx, x, send, after)
	}
	if !p.under.Enter() {
		return protocol.Errorf(protocol.ShuttingDown, "policies are stopping: %w", ErrClosed)
	}
	defer p.under.Leave()
	r := p.begin(x)
	ctx = context.WithValue(ctx, runKey{}, r)
	returned := false
	defer func() {
		if !returned {
			r.fail(protocol.Errorf(protocol.ExtensionError, "%s did not return: the host is at fault", x.Method))
			_ = r.finish(ctx) // the panic continues
		}
	}()
	err := r.execute(ctx, send, after)
	returned = true
	if err != nil {
		r.fail(err)
	}
	return r.finish(ctx)
}

func ungoverned(ctx context.Context, x *Exchange, send Stage, after []Stage) error {
	err := send(ctx, x)
	if x.Notify || err != nil && len(after) == 0 {
		return err
	}
	if err != nil {
		x.Failure, x.Response = asError(err), nil
	}
	for _, stage := range after {
		if err := stage(ctx, x); err != nil {
			return err
		}
	}
	return err
}

// Again asks authorization, validation and content policies about a change that a hook made to x,
// and shows audit policies the changed request. Stages of Govern call Again with the context they
// received, after they have changed x, and return its error unchanged. When a policy answers the
// changed request itself, x.Verdict says so, and x.Response is that answer.
func (p *Pipeline) Again(ctx context.Context, flow Flow, x *Exchange) error {
	if len(p.members) == 0 {
		return nil
	}
	r, ok := ctx.Value(runKey{}).(*exchangeRun)
	if !ok || r.x != x {
		r = p.begin(x)
		r.sent = flow == Response
	}
	return r.again(ctx, flow)
}

// Reply runs the response flow and audit for an x.Response that has no request in this pipeline,
// such as a server's part of the handshake. Its errors are those of Govern.
func (p *Pipeline) Reply(ctx context.Context, x *Exchange) error {
	if len(p.members) == 0 {
		return nil
	}
	if !p.under.Enter() {
		return protocol.Errorf(protocol.ShuttingDown, "policies are stopping: %w", ErrClosed)
	}
	defer p.under.Leave()
	r := p.begin(x)
	r.sent = true
	if err := r.decide(context.WithValue(ctx, runKey{}, r), Response); err != nil {
		r.fail(err)
	}
	return r.finish(ctx)
}

// Test runs the request flow of x without sending it, and the response flow of x.Response, if x has
// one. It returns the trace and the denial, if any. No person is asked, audit does not run and the
// trace is not kept. Policies that count requests do count this one.
func (p *Pipeline) Test(ctx context.Context, x *Exchange) (Trace, error) {
	if !p.under.Enter() {
		return Trace{}, protocol.Errorf(protocol.ShuttingDown, "policies are stopping: %w", ErrClosed)
	}
	defer p.under.Leave()
	r := p.begin(x)
	r.dryRun = true
	err := r.decide(ctx, Request)
	if err == nil && x.Response != nil && x.Verdict.Action != Respond {
		err = r.decide(ctx, Response)
	}
	if err != nil {
		r.fail(err)
	}
	r.record.end(x, false)
	return r.record.snapshot(), err
}

// MayHide reports whether [Pipeline.Visible] can return false.
func (p *Pipeline) MayHide() bool { return slices.ContainsFunc(p.members, (*member).mayHide) }
func (m *member) mayHide() bool   { _, ok := m.policy.(Visibler); return ok && !m.shadowed }

// Visible reports whether every policy lets the caller see the tool in lists.
func (p *Pipeline) Visible(caller string, t Tool) bool {
	return !slices.ContainsFunc(p.members, func(m *member) bool { return m.hides(caller, t) })
}

// hides reports whether m removes t from the lists of a caller. If m panics, it does.
func (m *member) hides(caller string, t Tool) (yes bool) {
	if !m.mayHide() || !m.spec.Match.matches(t.Called(caller)) {
		return false
	}
	defer func() {
		if recover() != nil {
			yes = true
		}
	}()
	return !m.policy.(Visibler).Visible(caller, t)
}

// Close waits until exchanges and detached observers have ended; later exchanges fail with
// [ErrClosed]. While Close waits, new exchanges are still governed, because they may be part of one
// in progress. When ctx ends first, Close cancels observers and approval requests and returns the
// error of ctx. It does not close the policies, because another pipeline may use them too.
func (p *Pipeline) Close(ctx context.Context) error {
	if p.stop != nil {
		defer p.stop()
	}
	select {
	case <-p.under.Drain():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
