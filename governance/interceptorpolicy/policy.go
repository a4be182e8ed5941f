// Package interceptorpolicy asks the interceptors of an MCP server, as SEP-2624 proposes
// them: the server lists them, with the events that each hooks, and is invoked with one of
// them and one payload at a time. A policy is all interceptors of a server, or those that
// its spec names.
//
// A validator allows or denies. A mutator returns another payload, so it needs a policy of
// category content. What an interceptor in mode audit decides has no effect. Towards the
// side that sends, mutators run before validators, and else behind them: validators decide
// about what crosses the boundary to an extension, in the form in which it crosses.
//
// What this package cannot read is refused: the policy could not decide then.
package interceptorpolicy

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/concurrent/inflight"
)

// Methods of SEP-2624.
const (
	methodList   = "interceptors/list"
	methodInvoke = "interceptor/invoke"
)

// Caller is the MCP server of a policy, initialized.
type Caller interface {
	Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
}

// Options of a policy.
type Options struct {
	Log *slog.Logger
	// Version returns the MCP version that the server speaks.
	Version func() string
}

// Policy is the interceptors of one server.
type Policy struct {
	spec    governance.Spec
	caller  Caller
	o       Options
	changes atomic.Int64            // how often the server has said that its list has changed
	known   atomic.Pointer[listing] // nil before Open
	reading chan struct{}           // holds a token while somebody reads the list

	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	asking inflight.Gate // invocations in mode audit
	audits atomic.Int64  // those under way
}

// listing is the list as it was after some changes.
type listing struct {
	changes      int64
	interceptors []*interceptor
}

var _ governance.Policy = (*Policy)(nil)

// New returns the policy of s, which must be normalized and valid. [Policy.Open] must
// follow, and [Policy.Close] in the end.
func New(s governance.Spec, c Caller, o Options) *Policy {
	p := &Policy{spec: s, caller: c, o: o, reading: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Close cancels the invocations in mode audit that are under way and waits for their end. It is
// idempotent. Decisions after it do not ask interceptors in mode audit.
func (p *Policy) Close() {
	p.stop()
	<-p.asking.Close()
}

// Open reads the list of the server. Its errors are those of the Caller; HandshakeInvalid
// when the list cannot be used as a whole, or nothing in it would ever be asked; and
// ConfigInvalid when the spec names what the server does not list.
func (p *Policy) Open(ctx context.Context) error {
	_, err := p.interceptors(ctx)
	return err
}

// Notified takes a notification of the server. After one that says that its list has
// changed, the next decision waits for the list. It may be called at any time.
func (p *Policy) Notified(method string) {
	if strings.HasPrefix(method, "notifications/interceptor") && strings.HasSuffix(method, "/list_changed") {
		p.changes.Add(1)
	}
}

// interceptors returns the list, and reads it when it has changed.
func (p *Policy) interceptors(ctx context.Context) ([]*interceptor, error) {
	if l := p.known.Load(); l != nil && l.changes == p.changes.Load() {
		return l.interceptors, nil
	}
	select {
	case p.reading <- struct{}{}:
		defer func() { <-p.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	changes := p.changes.Load()
	if l := p.known.Load(); l != nil && l.changes == changes {
		return l.interceptors, nil
	}
	list, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	p.known.Store(&listing{changes, list})
	return list, nil
}
