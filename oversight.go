package exthost

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/approval"
	"github.com/exthost/exthost/governance/audit"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/results"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// oversight is what policies share and the operator looks at; it outlives them.
type oversight struct {
	traces  *governance.Traces
	desk    *approval.Desk
	audit   *audit.Log     // nil: none is kept
	results *results.Store // nil: results of any size pass whole
}

// openOversight opens what cfg asks for. The size of results is capped by a policy;
// where a reload brings the first one, it cuts without keeping.
func (h *Host) openOversight(cfg *config.Config) (err error) {
	o := &h.oversight
	o.traces, o.desk = governance.NewTraces(0), approval.NewDesk(approval.Options{})
	if cfg.Audit.Path != "" {
		o.audit, err = audit.Open(audit.Options{Path: cfg.Audit.Path, MaxSize: int64(cfg.Audit.MaxSize), Keep: cfg.Audit.Keep, Log: h.log})
		if err != nil {
			return protocol.Errorf(protocol.ConfigInvalid, "audit.path: %w", err)
		}
	}
	for _, s := range cfg.Plugins {
		if s.Builtin == "size_cap" && !s.Disabled && o.results == nil {
			if o.results, err = results.Open(results.Options{Dir: filepath.Join(h.opts.StateDir, ".results")}); err != nil {
				return errors.Join(protocol.Errorf(protocol.ConfigInvalid, "policy %s: %w", s.Name, err), o.close(context.Background()))
			}
		}
	}
	return nil
}

// close ends it, after the last exchange.
func (o *oversight) close(ctx context.Context) error {
	var errs []error
	if o.audit != nil {
		errs = append(errs, o.audit.Close(ctx))
	}
	if o.results != nil {
		errs = append(errs, o.results.Close())
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
func (o *oversight) builtinPolicy(s governance.Spec) (governance.Policy, error) {
	p, err := builtin.New(s)
	if spiller, ok := p.(builtin.Spiller); ok && o.results != nil {
		spiller.SpillTo(o.results)
	}
	return p, err
}

// tools are the host's own.
func (o *oversight) tools() (list []tools.Source) {
	if o.results != nil {
		list = append(list, tools.Source{Tools: []protocol.Tool{results.Tool()}})
	}
	return list
}

// callOwn answers a call of one of the host's own tools.
func (r *routed) callOwn(x *governance.Exchange) (json.RawMessage, error) {
	return r.gen.oversight.results.Call(results.Owner{Caller: x.Caller, Session: x.Session}, rawjson.Get(x.Request, "arguments"))
}
