package exthost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/protocol"
)

// oversight is what policies share and the operator looks at; it outlives them.
type oversight struct {
	traces    *governance.Traces
	stats     policyStats
	desk      *approval.Store
	audit     *audit.Log // nil: none is kept
	auditPath string     // of audit

	results atomic.Pointer[results.Store] // nil until a policy caps the size of results
}

// openOversight opens what cfg asks for.
func (h *Host) openOversight(cfg *config.Config) (err error) {
	o := &h.oversight
	o.traces, o.desk = governance.NewTraces(0), approval.NewStore(approval.Options{Asked: h.announceQuestion})
	if h.opts.Inspect {
		return nil
	}
	if cfg.Audit.Path != "" {
		if err := o.openAudit(cfg.Audit, h.log); err != nil {
			return protocol.Errorf(protocol.ConfigInvalid, "audit.path: %w", err)
		}
	}
	return nil
}

// maxAudits is how many hosts can share an audit.path, each with a file of its own.
const maxAudits = 16

// openAudit opens the audit log, beside those of other hosts with the same path, as
// clients on stdio start them.
func (o *oversight) openAudit(c config.Audit, log *slog.Logger) error {
	var first error
	for n := 1; n <= maxAudits; n++ {
		path := audit.Sibling(c.Path, n)
		kept, err := audit.Open(audit.Options{Path: path, MaxSize: int64(c.MaxSize), Keep: c.Keep, Log: log})
		if err == nil {
			o.audit, o.auditPath = kept, path
			if first != nil {
				log.Warn("another host writes the audit log, so this one writes its own beside it", "path", path, "reason", first)
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

// AuditStatus is the state of the audit log.
type AuditStatus struct {
	Path   string `json:"path"`
	Reason string `json:"reason,omitempty"` // why nothing can be written; then no request passes
}

func (o *oversight) auditStatus() *AuditStatus {
	if o.audit == nil {
		return nil
	}
	s := &AuditStatus{Path: o.auditPath}
	if err := o.audit.Err(); err != nil {
		s.Reason = err.Error()
	}
	return s
}

// decided counts a decision.
func (h *Host) decided(o governance.Observation) {
	h.oversight.stats.observe(o)
	if h.opts.Observe != nil {
		h.opts.Observe(o)
	}
}

// announceQuestion tells the operator, who may be looking at the log, of a question.
func (h *Host) announceQuestion(q Question) {
	what := q.Tool
	if what == "" {
		what = q.Method
	}
	h.log.Warn("a call waits for an approval", "question", q.ID, "tool", what, "caller", q.Caller, "policy", q.Policy, "reason", q.Reason,
		"next", fmt.Sprintf("exthost approve %s, or exthost deny %s", q.ID, q.ID))
}

// close ends it, after the last exchange.
func (o *oversight) close(ctx context.Context) error {
	var errs []error
	if o.audit != nil {
		errs = append(errs, o.audit.Close(ctx))
	}
	if store := o.results.Load(); store != nil {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}

// auditName is the audit log's among the policies.
const auditName = "audit_log"

// members are the policies that oversight brings.
func (o *oversight) members() []governance.Member {
	if o.audit == nil {
		return nil
	}
	s := governance.Spec{Name: auditName, Category: governance.Audit, Builtin: auditName, Required: true}
	s.Normalize()
	return []governance.Member{{Spec: s, Policy: o.audit}}
}

// builtinPolicy makes a policy that needs no process.
func (h *Host) builtinPolicy(s governance.Spec) (governance.Policy, error) {
	p, err := builtin.New(s)
	if err != nil {
		return nil, err
	}
	if p, ok := p.(*builtin.Pin); ok {
		if err := os.MkdirAll(h.opts.StateDir, 0o700); err != nil {
			return nil, err
		}
		if err := p.Open(pinsFile(h.opts.StateDir)); err != nil {
			return nil, err
		}
	}
	return p, nil
}
