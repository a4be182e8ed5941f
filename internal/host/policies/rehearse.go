package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/host/stats"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

// Recorded returns c as the history of a host has it.
func Recorded(c *status.RecordedCall) (r stats.Recorded, err error) {
	method, _ := rawjson.Text(rawjson.Get(c.Sent, "method"))
	r = stats.Recorded{Began: c.Time, Request: rawjson.Get(c.Sent, "params")}
	r.ID, r.Extension, r.Method = c.ID, c.Extension, method
	if method == "" || c.Extension == "" {
		return r, protocol.Errorf(protocol.InvalidArguments, "call %d is no request to an extension", c.ID)
	}
	if r.Request == nil {
		r.Request = json.RawMessage("{}")
	}
	if name, ok := rawjson.Text(rawjson.Get(r.Request, "name")); ok && method == protocol.MethodToolsCall {
		r.Tool = tools.NameOf(c.Extension, name)
	}
	r.Response = rawjson.Get(c.Received, "result")
	switch {
	case r.Response == nil:
		r.Outcome = status.Outcome(protocol.ExtensionError)
	case protocol.ToolResult(r.Response).IsError():
		r.Outcome = status.OutcomeToolError
	default:
		r.Outcome = status.OutcomeOK
	}
	return r, nil
}

// Rehearsing is a policy that is asked about calls that have ended.
type Rehearsing struct {
	member governance.Member
	note   string
}

// Rehearsing returns the policy of a name for a rehearsal. A built-in policy gets counters of its own. Others are asked
// as they run.
func (s *State) Rehearsing(set *Set, name string) (r Rehearsing, err error) {
	for _, spec := range set.disabled {
		if spec.Name == name {
			return s.RehearsingEntry(spec)
		}
	}
	i := slices.IndexFunc(set.Members, func(m governance.Member) bool { return m.Spec.Name == name })
	if i < 0 {
		var names []string
		for _, m := range set.Members {
			names = append(names, m.Spec.Name)
		}
		near := text.Nearest(name, names)
		if near != "" {
			near = fmt.Sprintf(", did you mean %q?", near)
		}
		return r, protocol.Errorf(protocol.ToolNotFound, "there is no policy %.80q%s", name, near)
	}
	m := set.Members[i]
	switch {
	case m.Policy == governance.Policy(s.audit):
		return r, protocol.Errorf(protocol.InvalidArguments, "the audit log records, and decides about nothing")
	case m.Spec.Kind == governance.KindBuiltin && m.Spec.Builtin != "":
		return s.RehearsingEntry(m.Spec)
	}
	r.member = m
	r.note = fmt.Sprintf("policy %s is no built-in one, and was asked as it runs: one that counts has counted these "+
		"calls", name)
	return r, nil
}

// RehearsingEntry returns a policy for a rehearsal that an entry of the configuration would make. It has to be a
// built-in one: others run a program.
func (s *State) RehearsingEntry(spec governance.Spec) (r Rehearsing, err error) {
	spec.Normalize()
	spec.Disabled = false
	problems := spec.Validate()
	switch {
	case len(problems) > 0:
		p := problems[0]
		return r, protocol.Errorf(protocol.InvalidArguments, "%s", strings.TrimSuffix(p.Message+": "+p.Hint, ": "))
	case spec.Kind != governance.KindBuiltin:
		return r, protocol.Errorf(protocol.InvalidArguments, "an entry of kind %s runs a program: only built-in "+
			"policies are rehearsed before they are in the configuration; state it there with mode: shadow", spec.Kind)
	case spec.Builtin == "pin":
		return r, protocol.Errorf(protocol.InvalidArguments, "a policy of builtin: pin decides about descriptors, not "+
			"about calls: exthost policy pins shows what it holds back")
	}
	r.member.Spec = spec
	if r.member.Policy, err = s.createBuiltin(spec); err != nil {
		return r, protocol.Errorf(protocol.InvalidArguments, "%w", err)
	}
	return r, nil
}

// Rehearse has the policy decide about calls, oldest first, until ctx ends. The calls are not made, no person is asked,
// and nothing is recorded. catalog has what tools state now. excerpt returns what is shown of a changed payload.
func (s *State) Rehearse(ctx context.Context, r Rehearsing, calls []stats.Recorded, catalog *tools.Catalog,
	excerpt func(json.RawMessage) *status.Excerpt) status.Rehearsal {
	began, m := time.Now(), r.member
	m.Spec.Mode = governance.ModeEnforce
	pipeline := governance.NewPipeline(governance.Options{}, m)
	defer func() { _ = pipeline.Close(ctx) }() // every decision has ended
	out := status.Rehearsal{Policy: m.Spec.Name, Otherwise: []status.Rehearsed{}, Note: r.note}
	for i := range calls {
		c := &calls[i]
		if c.Request == nil {
			out.Skipped++
			continue
		}
		x := governance.Exchange{
			Method:    c.Method,
			Caller:    c.Caller,
			Session:   c.Session,
			Extension: c.Extension,
			Tool:      c.Tool,
			ToChild:   true,
			Request:   c.Request,
			Response:  c.Response,
			At:        c.Began,
		}
		if e, ok := catalog.Lookup(c.Tool); ok {
			x.Risk, x.Mismatch = e.Risk, e.Mismatch()
		}
		trace, err := pipeline.Test(ctx, &x)
		if ctx.Err() != nil {
			out.Left = len(calls) - i
			break
		}
		out.Calls++
		if c.Response == nil && (c.Outcome == status.OutcomeOK || c.Outcome == status.OutcomeToolError) {
			out.SkippedResults++
		}
		if err != nil && len(trace.Steps) == 0 { // nothing that a policy can decide about
			trace.Steps = []governance.Step{{
				Flow:    governance.Request,
				Outcome: governance.PluginError,
				Reason:  protocol.Reason(err),
			}}
		}
		s.add(&out, c, &x, trace, excerpt)
	}
	slices.Reverse(out.Otherwise)
	out.Took = protocol.Duration(time.Since(began))
	return out
}

// add adds the decisions about one call.
func (s *State) add(out *status.Rehearsal, c *stats.Recorded, x *governance.Exchange, trace governance.Trace,
	excerpt func(json.RawMessage) *status.Excerpt) {
	changed := false
	for _, step := range trace.Steps {
		n := status.Rehearsed{
			ID:      c.ID,
			Time:    c.Began,
			Tool:    c.Tool,
			Method:  c.Method,
			Caller:  c.Caller,
			Outcome: c.Outcome,
			Flow:    step.Flow,
			Action:  step.Action,
			Code:    step.Code,
			Reason:  s.env.Redactor.Text(step.Reason, len(step.Reason)),
		}
		switch {
		case step.Outcome == governance.PluginError:
			out.Failed++
		case step.Action == governance.Allow:
			continue
		case step.Action == governance.Deny:
			out.Denied++
		case step.Action == governance.Ask:
			out.Asked++
		case step.Ignored: // a change that the category of the policy may not make
			continue
		default:
			n.Changed = excerpt(x.Request)
			if step.Flow == governance.Response || step.Action == governance.Respond {
				n.Changed = excerpt(x.Response)
			}
			changed = true
		}
		out.Otherwise = append(out.Otherwise, n)
	}
	if changed {
		out.Changed++
	}
}
