package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/internal/redact"
)

// codeSecret is the code of a denial because of what was found.
const codeSecret = "secret_found"

// redactConfig is what the policy redact may state.
type redactConfig struct {
	Action   string            `json:"action"`   // redact (default), or deny
	Rules    map[string]bool   `json:"rules"`    // rules on and off by name
	Patterns map[string]string `json:"patterns"` // more expressions by name; looked for everywhere, so they cost more
	Allow    []string          `json:"allow"`    // expressions for what passes
}

// redaction masks secrets and personal data in requests and responses, or denies
// those that hold some.
type redaction struct {
	detector *redact.Detector
	deny     bool
}

func newRedaction(s governance.Spec) (governance.Policy, error) {
	var c redactConfig
	if err := configure(s.Config, &c); err != nil {
		return nil, err
	}
	if err := oneOf("action", &c.Action, "redact", "deny"); err != nil {
		return nil, err
	}
	if err := changes(s); err != nil && c.Action != "deny" {
		return nil, err
	}
	detector, err := redact.NewDetector(redact.Options{Rules: c.Rules, Patterns: c.Patterns, Allow: c.Allow})
	if err != nil {
		return nil, wrong("config", "%w", err)
	}
	return &redaction{detector, c.Action == "deny"}, nil
}

// changes refuses a policy that changes what passes in a category that may not.
func changes(s governance.Spec) error {
	if s.Category != governance.Content {
		return wrong("category", "%s changes what passes, so its category is %s", s.Builtin, governance.Content)
	}
	return nil
}

// Decide implements [governance.Policy].
func (p *redaction) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	raw, what := x.Request, "request"
	if flow == governance.Response {
		raw, what = x.Response, "response"
	}
	masked, found, err := p.detector.JSON(ctx, raw)
	if err != nil || found == nil {
		return governance.Decision{}, err
	}
	data, _ := json.Marshal(struct { // a map of numbers always encodes
		Found redact.Findings `json:"found"`
	}{found})
	d := governance.Decision{Action: governance.Modify, JSON: masked, Data: data, Reason: fmt.Sprintf("the %s held %s", what, found)}
	if p.deny {
		d = governance.Decision{Action: governance.Deny, Code: codeSecret, Data: data, Reason: fmt.Sprintf("the %s holds %s; leave that out", what, found)}
	}
	if meta := rawjson.Get(raw, "_meta"); meta != nil && flow == governance.Request && !p.deny {
		d.JSON = rawjson.Set(d.JSON, "_meta", meta) // the protocol's own, such as progress tokens
	}
	return d, nil
}
