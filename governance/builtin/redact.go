package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/text/redact"
)

const codeSecret = "secret_found"

// redactConfig is the config of the built-in policy redact, which masks secrets and
// personal data in requests and responses:
//
//	action: redact            # redact (default), or deny payloads that hold any
//	rules: {phone: true}      # rules on and off by name
//	patterns: {emp: 'EMP-\d+'}  # more expressions (RE2) by name; slower, because they run on every string
//	allow: ['.*@example\.com']  # expressions for texts to leave unmasked
//
// It finds keys and tokens of many services, private keys, passwords in URLs, e-mail
// addresses and card numbers, and replaces each by "[redacted:RULE]". It searches every
// string by itself, after unescaping it and without characters that a reader does not see,
// and decodes base64 in it. It does not search numbers and does not find a secret that a tool
// splits or obscures in other ways. Category content; with action deny, any category.
type redactConfig struct {
	Action   string            `json:"action"`
	Rules    map[string]bool   `json:"rules"`
	Patterns map[string]string `json:"patterns"`
	Allow    []string          `json:"allow"`
}

// redaction is the policy redact.
type redaction struct {
	detector *redact.Detector
	deny     bool
}

func newRedaction(s governance.Spec) (governance.Policy, error) {
	var c redactConfig
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if err := settings.OneOf("action", &c.Action, "redact", "deny"); err != nil {
		return nil, err
	}
	if err := requireContent(s); err != nil && c.Action != "deny" {
		return nil, err
	}
	detector, err := redact.NewDetector(redact.Options{Rules: c.Rules, Patterns: c.Patterns, Allow: c.Allow})
	if err != nil {
		return nil, settings.Wrong("config", "%w", err)
	}
	return &redaction{detector, c.Action == "deny"}, nil
}

// requireContent returns an error for a policy that changes payloads and is not of category
// content.
func requireContent(s governance.Spec) error {
	if s.Category != governance.Content {
		return settings.Wrong("category", "%s changes what passes, so its category is %s", s.Builtin,
			governance.Content)
	}
	return nil
}

// Decide implements [governance.Policy].
func (p *redaction) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
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
	d := governance.Decision{
		Action: governance.Modify,
		JSON:   masked,
		Data:   data,
		Reason: fmt.Sprintf("the %s held %s", what, found),
	}
	if p.deny {
		d = governance.Decision{
			Action: governance.Deny,
			Code:   codeSecret,
			Data:   data,
			Reason: fmt.Sprintf("the %s holds %s; leave that out", what, found),
		}
	}
	if token := rawjson.Get(rawjson.Get(raw, "_meta"), "progressToken"); token != nil && flow == governance.Request &&
		!p.deny {
		// the caller finds the call of a progress notification by the token, so the token stays
		// unchanged
		d.JSON = rawjson.Set(d.JSON, "_meta", rawjson.Set(rawjson.Get(d.JSON, "_meta"), "progressToken", token))
	}
	return d, nil
}
