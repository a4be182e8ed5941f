// Package policies runs the policies of a configuration: their processes, and the
// approvals, traces, audit log and stored results that outlive a single pipeline.
package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/host/unit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
	"github.com/exthost/exthost/status"
)

// Options of a [State].
type Options struct {
	// Kinds make policies whose code this package does not link.
	Kinds Kinds
	// Members are the embedding program's own policies.
	Members []governance.Member
	// With Inspect, there is no audit log and no store of results, and no pins are written. Policies of scope cluster
	// count locally.
	Inspect bool
	// Quota leases units to policies of scope cluster. Nil: the host is in no cluster.
	Quota quota.Source
	// Observe receives every decision after it was counted. Nil: ignored.
	Observe func(governance.Observation)
	// Dashboard returns the address at which operators answer approval requests in a browser, "" for none. Nil: there
	// is none.
	Dashboard func() string
	// Events returns the callbacks of a policy's process. Its id is policy:NAME.
	Events func(id string) unit.Events
}

// Kinds make policies whose code this package does not link. Without a function, policies of its kind are
// refused.
type Kinds struct {
	CEL  func(governance.Spec) (governance.Policy, error)
	GRPC func(governance.Spec, runtime.Spec) interface {
		runtime.Instance
		governance.Policy
	}
}

// State is shared by the policies of all sets, and outlives each [Set].
type State struct {
	Approvals *approval.Store
	Traces    *governance.Traces
	Stats     stats.Policies

	env       *unit.Env
	hidden    *pins.Hidden // items of all extensions and destinations
	options   Options
	audit     *audit.Log // nil: none
	auditPath string
	results   atomic.Pointer[results.Store] // nil until a policy caps the size of results
	quotas    *quota.Pool
}

// Open opens the state, with the audit log that cfg asks for.
func Open(env *unit.Env, cfg *config.Config, o Options) (*State, error) {
	s := &State{env: env, options: o, Traces: governance.NewTraces(0), quotas: quota.NewPool(o.Quota)}
	var err error
	if s.hidden, err = pins.OpenHidden(filepath.Join(env.StateDir, ".hidden.json")); err != nil {
		env.Log.Warn("what was accepted cannot be read", "reason", err)
	}
	s.Approvals = approval.NewStore(approval.Options{
		Asked:     s.logApprovalRequest,
		Refused:   s.recordRefusedAnswer,
		Dashboard: o.Dashboard,
		Secrets:   env.Redactor,
	})
	if o.Inspect || cfg.Audit.Path == "" {
		return s, nil
	}
	if err := s.openAudit(cfg.Audit); err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "audit.path: %w", err)
	}
	return s, nil
}

// maxAudits bounds the hosts that share an audit.path, each with its own file.
const maxAudits = 16

// openAudit opens the audit log. If other hosts have the same path, as clients on stdio start one host each, it
// opens a sibling file.
func (s *State) openAudit(c config.Audit) error {
	var first error
	resolved, err := file.Below(c.Within, c.Path)
	if err != nil {
		return err
	}
	c.Path = resolved
	for n := 1; n <= maxAudits; n++ {
		path := audit.Sibling(c.Path, n)
		log, err := audit.Open(audit.Options{
			Path:    path,
			MaxSize: int64(c.MaxSize),
			Keep:    c.Keep,
			Anchor:  cmp.Or(time.Duration(c.Anchor), -1),
			Secrets: s.env.Redactor,
			Log:     s.env.Log,
		})
		if err == nil {
			s.audit, s.auditPath = log, path
			if first != nil {
				s.env.Log.Warn("another host writes the audit log, so this one writes its own beside it", "path", path,
					"reason", first)
			}
			return nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, audit.ErrTaken) {
			return err
		}
	}
	return first
}

// logApprovalRequest reports an approval request to an operator who reads the log.
func (s *State) logApprovalRequest(q approval.Request) {
	subject := cmp.Or(q.Tool, q.Method)
	s.env.Log.Warn("a call waits for an approval", "approval", q.ID, "tool", subject, "caller", q.Caller, "policy",
		q.Policy, "reason", q.Reason,
		"next", fmt.Sprintf("exthost calls approve %s, or exthost calls deny %s", q.ID, q.ID))
}

// recordRefusedAnswer records that the answer of a client does not count, or that a client is asked no more.
func (s *State) recordRefusedAnswer(q approval.Request, why string) {
	s.env.Log.Warn("a client's answer to an approval request: "+why, "approval", q.ID, "tool", q.Tool, "caller",
		q.Caller, "policy", q.Policy)
	ctx, cancel := context.WithTimeout(context.Background(), closeDrain)
	defer cancel()
	s.Record(ctx, audit.Record{
		Time:      time.Now().UTC(),
		ID:        q.Decision,
		Caller:    q.Caller,
		Session:   q.Session,
		Node:      q.Node,
		Extension: q.Extension,
		Tool:      q.Tool,
		Method:    audit.MethodAnswer,
		Outcome:   audit.Denied,
		Policy:    q.Policy,
		Error:     why,
	})
}

// CodeAnswersItself is the code of the diagnostic about a client that is asked for approvals no more.
const CodeAnswersItself = "client_answers_itself"

// Diagnostics returns what an operator should know about approvals.
func (s *State) Diagnostics() (diags []protocol.Diagnostic) {
	for _, client := range s.Approvals.Unasked() {
		diags = append(diags, protocol.Diagnostic{
			Level: protocol.LevelWarn,
			Code:  CodeAnswersItself,
			Message: fmt.Sprintf("client %s has answered approval requests faster than a person, ten times in a row: "+
				"it is asked no more until the host is started again, and its calls wait for operators", client),
			Hint: "take server.clients." + client + ".approves away, or have a person answer there",
		})
	}
	return diags
}

func (s *State) observe(o governance.Observation) {
	s.Stats.Observe(o)
	if s.options.Observe != nil {
		s.options.Observe(o)
	}
}

// AuditStatus returns the state of the audit log, nil if none is kept.
func (s *State) AuditStatus() *status.Audit {
	if s.audit == nil {
		return nil
	}
	a := &status.Audit{Path: s.auditPath}
	if err := s.audit.Err(); err != nil {
		a.Reason = fmt.Sprintf("%v; no request passes until a record can be written, which the host tries every "+
			"second and at each request: make room or access for %s", err, s.auditPath)
	}
	return a
}

// Record writes a record into the audit log, if one is kept.
func (s *State) Record(ctx context.Context, r audit.Record) {
	if s.audit == nil {
		return
	}
	if err := s.audit.Append(ctx, r); err != nil {
		s.env.Log.Error("a record was not written into the audit log", "method", r.Method, "error", err)
	}
}

// auditName names the audit log among the policies.
const auditName = "audit_log"

// auditMember returns the audit log as a policy, if one is kept.
func (s *State) auditMember() []governance.Member {
	if s.audit == nil {
		return nil
	}
	spec := governance.Spec{Name: auditName, Category: governance.Audit, Builtin: auditName}
	spec.Normalize()
	return []governance.Member{{Spec: spec, Policy: s.audit}}
}

// openResults opens the store of results for the first set that needs it. It stays open until Close.
func (s *State) openResults(set *Set) error {
	if s.options.Inspect || s.results.Load() != nil || !set.Offloads() {
		return nil
	}
	store, err := results.Open(results.Options{Dir: filepath.Join(s.env.StateDir, ".results"), Node: s.env.Node})
	if err != nil {
		return protocol.Errorf(protocol.ConfigInvalid, "plugins: no place for the results that size_cap cuts: %w", err)
	}
	s.results.Store(store)
	return nil
}

// Results returns the store of oversized results, nil if there is none.
func (s *State) Results() *results.Store { return s.results.Load() }

// Install puts set in force: policies that cut results get the store, and counts of other policies are dropped. The
// counters of a cluster are watched while a policy uses them.
func (s *State) Install(set *Set) {
	s.Stats.Retain(set.Members)
	s.quotas.Watch(slices.ContainsFunc(set.Members, func(m governance.Member) bool {
		p, ok := m.Policy.(builtin.Sharer)
		return ok && p.Shared() != nil
	}))
	for _, m := range set.Members {
		p, ok := m.Policy.(builtin.Offloader)
		switch {
		case !ok:
		case offloads(m):
			p.OffloadTo(s.results.Load())
		default:
			p.OffloadTo(nil)
		}
	}
}

// offloads reports whether m cuts results and stores the rest. Shadow mode does not cut.
func offloads(m governance.Member) bool {
	_, ok := m.Policy.(builtin.Offloader)
	return ok && m.Spec.Mode != governance.ModeShadow
}

// closeDrain is the time for pending decisions when a pipeline closes.
const closeDrain = time.Second

// ClosePipeline waits for the pending decisions of p, at most 1 s.
func (s *State) ClosePipeline(ctx context.Context, p *governance.Pipeline) {
	ctx, cancel := context.WithTimeout(ctx, closeDrain)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		s.env.Log.Warn("policies were still deciding when the host closed", "error", err)
	}
}

// Close closes the audit log and the results. No exchange may follow.
func (s *State) Close(ctx context.Context) error {
	errs := []error{s.quotas.Close(ctx)}
	if s.audit != nil {
		errs = append(errs, s.audit.Close(ctx))
	}
	if store := s.results.Load(); store != nil {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}
