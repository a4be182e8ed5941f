package builtin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/protocol"
)

// outputSchemaConfig is the config of the built-in policy output_schema, which checks the
// structuredContent of results against the output schema of the tool that returned it:
//
//	on_mismatch: error   # error (default): withhold the result, or warn: let it pass
//
// Either way the host counts the results of each tool that broke its schema; status and check name
// the tool. A result without structuredContent is one of them, if the tool states a schema. Errors
// of the tool, questions to the client and tasks that have just begun are not checked, and neither
// are tools of destinations, which the host does not know. A denial names the places in the result,
// not its values. Category validation only, response flow.
type outputSchemaConfig struct {
	OnMismatch string `json:"on_mismatch"`
}

const warned = "warn"

// CodeOutputMismatch is the code of denials by the policy output_schema, and of its diagnostics.
const CodeOutputMismatch = "output_mismatch"

// Reporter is a policy that reports what it has seen of extensions.
type Reporter interface {
	Diagnostics() []protocol.Diagnostic
}

// outputSchema is the policy output_schema.
type outputSchema struct {
	deny bool

	mu     sync.Mutex // guards counts
	counts lru[toolKey, promise]
}

// toolKey identifies a tool by its extension and its registered name.
type toolKey struct{ extension, tool string }

// promise counts the checked results of a tool.
type promise struct {
	checked, broken int64
	last            string // how the last broken one did not match
}

var _ Reporter = (*outputSchema)(nil)

func newOutputSchema(s governance.Spec) (governance.Policy, error) {
	c := outputSchemaConfig{}
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if err := settings.OneOf("on_mismatch", &c.OnMismatch, "error", warned); err != nil {
		return nil, err
	}
	if s.Category != governance.Validation {
		return nil, settings.Wrong("category",
			"the policy output_schema checks the form of results, so its category is %s, not %s", governance.Validation,
			s.Category)
	}
	return &outputSchema{deny: c.OnMismatch != warned}, nil
}

// Decide implements [governance.Policy].
func (p *outputSchema) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow != governance.Response || !x.ReturnsTool() || x.Failure != nil || x.Mismatch == nil {
		return governance.Decision{}, nil
	}
	fault, promised := x.Mismatch(x.Response)
	if !promised {
		return governance.Decision{}, nil
	}
	p.count(x, fault)
	if fault == "" {
		return governance.Decision{}, nil
	}
	d := governance.Decision{
		Code:   CodeOutputMismatch,
		Reason: fmt.Sprintf("the result of %s breaks the tool's own output schema: %s", x.Tool, fault),
	}
	if p.deny {
		d.Action = governance.Deny
	}
	return d, nil
}

func (p *outputSchema) count(x *governance.Exchange, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.counts.get(toolKey{x.Extension, x.Tool})
	if n.checked++; fault != "" {
		n.broken++
		n.last = fault
	}
}

// maxReported bounds the tools that are reported one by one.
const maxReported = 20

// Diagnostics implements [Reporter].
func (p *outputSchema) Diagnostics() (diags []protocol.Diagnostic) {
	p.mu.Lock()
	var broken []*lruEntry[toolKey, promise]
	for e := p.counts.order.Front(); e != nil; e = e.Next() {
		if one := e.Value.(*lruEntry[toolKey, promise]); one.value.broken > 0 {
			copied := *one
			broken = append(broken, &copied)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(broken, func(a, b *lruEntry[toolKey, promise]) int {
		return cmp.Or(cmp.Compare(b.value.broken, a.value.broken), cmp.Compare(a.key.tool, b.key.tool))
	})
	for _, one := range broken[:min(len(broken), maxReported)] {
		diags = append(diags, protocol.Diagnostic{
			Level:     protocol.LevelWarn,
			Code:      CodeOutputMismatch,
			Extension: one.key.extension,
			Message: fmt.Sprintf("%d of %d results of %s broke the tool's output schema, the last one: %s",
				one.value.broken, one.value.checked, one.key.tool, one.value.last),
			Hint: "ask its author to correct the schema or the result",
		})
	}
	return diags
}
