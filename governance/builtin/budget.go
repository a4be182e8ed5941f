package builtin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/quota"
)

// budgetConfig is the config of the built-in policy budget, which limits the total of one
// session or caller:
//
//	calls: 500         # requests
//	bytes: 10000000    # of requests and responses, as JSON
//	tokens: 200000     # of requests and responses, estimated as bytes / 4
//	window: 24h        # the budget starts anew after this time; default 0: never
//	per: session       # session (default) or caller
//	scope: node        # count at this node (default), or cluster: at all nodes together
//
// Set at least one of calls, bytes and tokens; 0 is unlimited. A request is denied once a limit
// has been reached; the response that reaches the limit is still delivered. Requests to
// extensions count, notifications do not. Category rate_limiting only, in both flows. scope:
// cluster needs a window, which starts by the clock of the servers; see [limits of all
// nodes](#limits-of-all-nodes).
type budgetConfig struct {
	Calls  int64             `json:"calls"`
	Bytes  int64             `json:"bytes"`
	Tokens int64             `json:"tokens"`
	Window settings.Duration `json:"window"`
	Per    string            `json:"per"`
	Scope  string            `json:"scope"`
}

const bytesPerToken = 4

// usage is the used part of a budget.
type usage struct {
	since        time.Time
	calls, bytes int64
}

type budget struct {
	budgetConfig
	mu     sync.Mutex
	usage  lru[sessionKey, usage]
	shared *quota.Counters[sessionKey] // nil: this host counts alone
	name   string
}

func newBudget(s governance.Spec) (governance.Policy, error) {
	var p budget
	if err := settings.Decode(s.Config, &p.budgetConfig); err != nil {
		return nil, err
	}
	errs := []error{
		requireRateLimiting(s),
		settings.OneOf("per", &p.Per, "session", "caller"),
		settings.OneOf("scope", &p.Scope, scopeNode, scopeCluster),
	}
	if p.name = s.Name; p.Scope == scopeCluster {
		errs = append(errs, requireWindow("config.window", p.Window))
	}
	switch least, most := min(p.Calls, p.Bytes, p.Tokens), max(p.Calls, p.Bytes, p.Tokens); {
	case least < 0:
		errs = append(errs, settings.Wrong("config", "calls, bytes and tokens are counts, 0 for no bound"))
	case most == 0:
		errs = append(errs, settings.Wrong("config", "a budget needs calls, bytes or tokens"))
	}
	if (p.Bytes > 0 || p.Tokens > 0) && len(s.Flows) == 1 {
		errs = append(errs, settings.Wrong("flows", "a budget of bytes or tokens needs both flows"))
	}
	return &p, errors.Join(errs...)
}

// Decide implements [governance.Policy].
func (p *budget) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if !x.ToChild || x.Notify {
		return governance.Decision{}, nil
	}
	key, now, window := keyOf(x), x.Now(), time.Duration(p.Window)
	if p.Per == "caller" {
		key.session = ""
	}
	if p.shared != nil {
		return p.decideShared(ctx, flow, key, now, x)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	used := p.usage.get(key)
	if used.since.IsZero() || window > 0 && now.Sub(used.since) >= window {
		*used = usage{since: now}
	}
	if flow == governance.Response {
		used.bytes += int64(len(x.Response))
		return governance.Decision{}, nil
	}
	if what := p.exceeded(used); what != "" {
		return p.denial(what, max(used.since.Add(window).Sub(now), 0)), nil
	}
	used.calls++
	used.bytes += int64(len(x.Request))
	return governance.Decision{}, nil
}

// denial returns the denial for a limit that is used up. The budget starts anew after wait; 0:
// never.
func (p *budget) denial(what string, wait time.Duration) governance.Decision {
	d := governance.Decision{
		Action:     governance.Deny,
		Code:       "budget_exceeded",
		RetryAfter: wait,
		Reason:     fmt.Sprintf("the budget of %s for this %s is used up", what, p.Per),
	}
	if p.Window > 0 {
		d.Reason += fmt.Sprintf("; the next one begins in %s", wait.Round(time.Second))
	}
	return d
}

// exceeded names the limit that has been reached, "" when none has.
func (p *budget) exceeded(used *usage) string {
	switch {
	case p.Calls > 0 && used.calls >= p.Calls:
		return fmt.Sprintf("%d calls", p.Calls)
	case p.Bytes > 0 && used.bytes >= p.Bytes:
		return fmt.Sprintf("%d bytes", p.Bytes)
	case p.Tokens > 0 && used.bytes/bytesPerToken >= p.Tokens:
		return fmt.Sprintf("%d tokens", p.Tokens)
	}
	return ""
}
