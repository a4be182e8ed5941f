package policies

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/pins"
	"github.com/exthost/exthost/internal/host/permit"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/supervisor"
	"github.com/exthost/exthost/tools"
)

// Set is the policies of one configuration. It is immutable.
type Set struct {
	Members   []governance.Member
	Processes []*Process // of the members that have one
	Pipeline  *governance.Pipeline
	pinning   []pinning
	hidden    *pins.Hidden
	permits   *permit.Rules
	disabled  []governance.Spec
}

// NewSet makes the policies of cfg, the audit log and the embedding program's policies. Policies that are
// unchanged from before, which may be nil, keep their state; if all are unchanged, the pipeline is kept.
func (s *State) NewSet(cfg *config.Config, before *Set) (*Set, error) {
	before = cmp.Or(before, new(Set))
	var refused config.Refused
	configured, err := governance.Members(cfg.Plugins, before.Members,
		func(spec governance.Spec) (p governance.Policy, err error) {
			if spec.Kind == governance.KindBuiltin {
				p, err = s.newBuiltin(cfg, spec)
			} else {
				p, err = s.newProcess(cfg, spec)
			}
			if err != nil {
				refused = append(refused, Refusal(cfg, spec.Name, "", err))
			}
			return p, err
		})
	if err != nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "%w", refused)
	}
	set := &Set{
		Members: slices.Concat(configured, s.auditMember(), s.programMembers()),
		hidden:  s.hidden,
		permits: &s.env.Permits,
	}
	if name, twice := nameTwice(set.Members); twice {
		return nil, protocol.Errorf(protocol.ConfigInvalid, "two policies have the name %q: state, traces and the "+
			"audit log would not tell them apart; give one another name", name)
	}
	for _, m := range set.Members {
		switch p := m.Policy.(type) {
		case *Process:
			set.Processes = append(set.Processes, p)
		case *builtin.Pin:
			set.pinning = append(set.pinning, pinning{p, m.Spec.Name, m.Spec.Mode == governance.ModeShadow})
		}
	}
	for _, spec := range cfg.Plugins {
		if spec.Disabled {
			set.disabled = append(set.disabled, spec)
		}
	}
	if err := s.openResults(set); err != nil {
		return nil, err
	}
	if set.Pipeline = before.Pipeline; set.Pipeline == nil ||
		!slices.EqualFunc(set.Members, before.Members, sameMember) {
		set.Pipeline = governance.NewPipeline(governance.Options{
			Log:      s.env.Log,
			Traces:   s.Traces,
			Approver: s.Approvals,
			Observe:  s.observe,
		}, set.Members...)
	}
	return set, nil
}

// nameTwice returns a name that two members have.
func nameTwice(members []governance.Member) (name string, twice bool) {
	known := make(map[string]bool, len(members))
	for _, m := range members {
		if known[m.Spec.Name] {
			return m.Spec.Name, true
		}
		known[m.Spec.Name] = true
	}
	return "", false
}

// programMembers returns the embedding program's own policies.
func (s *State) programMembers() []governance.Member {
	members := slices.Clone(s.options.Members)
	for i := range members {
		members[i].Spec.Layer = governance.LayerProgram
	}
	return members
}

// createBuiltin makes a built-in policy that counts for itself and opens nothing.
func (s *State) createBuiltin(spec governance.Spec) (governance.Policy, error) {
	if spec.Builtin == builtin.CEL && s.options.Kinds.CEL != nil {
		return s.options.Kinds.CEL(spec)
	}
	return builtin.New(spec)
}

func (s *State) newBuiltin(cfg *config.Config, spec governance.Spec) (governance.Policy, error) {
	p, err := s.createBuiltin(spec)
	if err != nil {
		return nil, err
	}
	if p, ok := p.(*builtin.Pin); ok {
		if err := os.MkdirAll(s.env.StateDir, 0o700); err != nil {
			return nil, err
		}
		if err := p.Open(filepath.Join(s.env.StateDir, "pins.json")); err != nil {
			return nil, err
		}
	}
	if p, ok := p.(builtin.Sharer); ok && p.Shares() && !s.options.Inspect {
		if s.options.Quota == nil && !cfg.Cluster.Joins() {
			return nil, errors.New("config.scope: cluster counts for all nodes of a cluster, and this host is in " +
				"none: state cluster.join, or scope: node")
		}
		p.ShareBy(s.quotas)
	}
	return p, nil
}

func sameMember(a, b governance.Member) bool {
	return a.Policy == b.Policy && reflect.DeepEqual(a.Spec, b.Spec)
}

// Refusal is the error of a configuration with a policy that cannot be put in force, at the place that states it.
func Refusal(cfg *config.Config, policy, what string, err error) protocol.Diagnostic {
	d := protocol.Diagnostic{
		Level:   protocol.LevelError,
		Code:    string(protocol.ConfigInvalid),
		Message: fmt.Sprintf("policy %s%s: %s", policy, what, protocol.Reason(err)),
	}
	if words := protocol.LastWords(err); words != "" && !strings.Contains(d.Message, words) {
		d.Message += "; its last words: " + words
	}
	d.Path, d.Line, d.Column = cfg.PlaceOfPolicy(policy, "")
	return d
}

// Changed returns the names of the policies that differ between the sets, sorted.
func (set *Set) Changed(before *Set) []string {
	names := []string{}
	for _, lists := range [][2][]governance.Member{{before.Members, set.Members}, {set.Members, before.Members}} {
		for _, m := range lists[0] {
			same := func(other governance.Member) bool { return sameMember(m, other) }
			if !slices.ContainsFunc(lists[1], same) && !slices.Contains(names, m.Spec.Name) {
				names = append(names, m.Spec.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Shows reports whether the policies let a caller see a tool of the catalog in lists.
func (set *Set) Shows(caller string, e *tools.Entry) bool {
	return set.Pipeline.Visible(caller, governance.Tool{Extension: e.Extension, Name: e.Registered(), Risk: e.Risk})
}

// Diagnostics returns what policies report about extensions.
func (set *Set) Diagnostics() (diags []protocol.Diagnostic) {
	for _, m := range set.Members {
		if p, ok := m.Policy.(builtin.Reporter); ok {
			diags = append(diags, p.Diagnostics()...)
		}
	}
	return diags
}

// Offloads reports whether a policy of the set cuts results and stores the rest.
func (set *Set) Offloads() bool { return slices.ContainsFunc(set.Members, offloads) }

// Status returns the policies in the order of the pipeline, then the disabled ones, each with the diagnostics
// about it from diags.
func (s *State) Status(set *Set, diags []protocol.Diagnostic) (list []status.Policy) {
	inOrder := func(a, b governance.Member) int { return a.Spec.Order(&b.Spec) }
	for _, m := range slices.SortedStableFunc(slices.Values(set.Members), inOrder) {
		p := describe(m.Spec)
		p.State, p.Calls = string(supervisor.Ready), s.Stats.Calls(m.Spec.Name)
		if x, ok := m.Policy.(*Process); ok {
			process := x.Status()
			p.State, p.Reason, p.Process = process.State, process.Reason, &process
		}
		if audit := s.AuditStatus(); m.Policy == governance.Policy(s.audit) && audit != nil && audit.Reason != "" {
			p.State, p.Reason = string(supervisor.Restarting), audit.Reason
		}
		s.describeShared(&p, m.Policy)
		for _, d := range diags {
			if d.Extension == status.PolicyPrefix+p.Name && d.Code == CodeUnmatched {
				p.Diagnostics = append(p.Diagnostics, d)
			}
		}
		list = append(list, p)
	}
	for _, spec := range set.disabled {
		p := describe(spec)
		p.State = status.StateDisabled
		list = append(list, p)
	}
	return list
}

// describeShared adds to p whether a policy of scope cluster reaches its counters, and whether limits differ between
// nodes.
func (s *State) describeShared(p *status.Policy, policy governance.Policy) {
	sharer, ok := policy.(builtin.Sharer)
	if !ok || sharer.Shared() == nil {
		return
	}
	if err := s.quotas.Err(p.Name); err != nil {
		p.State = string(supervisor.Restarting)
		p.Reason = fmt.Sprintf("its counters are not reached: %v; calls pass while this node has units left, and then "+
			"none that it is required for", err)
	}
	if note := s.quotas.Note(p.Name); note != "" {
		p.Diagnostics = append(p.Diagnostics, protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Code:      CodeQuotaDiffers,
			Extension: status.PolicyPrefix + p.Name,
			Message:   note,
			Hint:      "state the same limits at all nodes",
		})
	}
}

// CodeQuotaDiffers is the code of the diagnostic about a policy with different limits at another node.
const CodeQuotaDiffers = "quota_differs"

func describe(s governance.Spec) status.Policy {
	s.Normalize()
	flows := s.Flows
	if len(flows) == 0 {
		flows = []governance.Flow{governance.Request, governance.Response}
	}
	return status.Policy{
		Name:      s.Name,
		Category:  s.Category,
		Kind:      s.Kind,
		Builtin:   s.Builtin,
		Mode:      s.Mode,
		Required:  *s.Required,
		Flows:     flows,
		Selective: s.Match.Selects(),
		Priority:  s.Priority,
	}
}
