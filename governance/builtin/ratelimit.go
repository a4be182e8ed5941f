package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/quota"
)

// rateLimitConfig is the config of the built-in policy rate_limit, which bounds the rate of
// requests to extensions:
//
//	limits:                 # all of them apply
//	- calls: 60             # requests
//	  window: 1m            # per this time, refilled evenly; default 1m
//	  burst: 10             # at most this many at once; default: calls
//	  per: [caller, tool]   # a separate limit per caller, session, node, tool, extension; default: one for all
//	scope: node             # count at this node (default), or cluster: at all nodes together
//
// Requests to extensions count, notifications and denied requests do not. A denial states when to
// retry. Category rate_limiting only. With scope: cluster, all nodes share each limit, windows
// begin by the clock of the servers, and burst must be left out; see [limits of all
// nodes](#limits-of-all-nodes).
type rateLimitConfig struct {
	Limits []rateLimit `json:"limits"`
	Scope  string      `json:"scope"`
}

type rateLimit struct {
	Calls  int               `json:"calls"`
	Window settings.Duration `json:"window"`
	Burst  int               `json:"burst"`
	Per    []string          `json:"per"`
}

// bucketKey identifies one bucket of one limit.
type bucketKey struct {
	limit                                  int
	caller, session, node, tool, extension string
}

type rateLimiter struct {
	rateLimitConfig
	mu      sync.Mutex // makes taking from several buckets atomic
	buckets lru[bucketKey, *rate.Limiter]
	shared  *quota.Counters[bucketKey] // nil: this host counts alone
	name    string
}

func newRateLimit(s governance.Spec) (governance.Policy, error) {
	var p rateLimiter
	if err := settings.Decode(s.Config, &p.rateLimitConfig); err != nil {
		return nil, err
	}
	p.name = s.Name
	errs := []error{requireRateLimiting(s), settings.OneOf("scope", &p.Scope, scopeNode, scopeCluster)}
	if len(p.Limits) == 0 {
		errs = append(errs, settings.Wrong("config.limits",
			"is missing; such as [{calls: 60, window: 1m, per: [caller]}]"))
	}
	for i := range p.Limits {
		place := fmt.Sprintf("limits[%d]", i)
		if p.Scope == scopeCluster {
			errs = append(errs, p.Limits[i].checkShared("config."+place))
		}
		errs = append(errs, p.Limits[i].normalize(place))
	}
	return &p, errors.Join(errs...)
}

// checkShared returns the errors of l, a limit that all nodes share; key is its place in the
// config.
func (l *rateLimit) checkShared(key string) error {
	var burst error
	if l.Burst != 0 {
		burst = settings.Wrong(key+".burst",
			"is for scope: node; of all nodes together, a second limit with a shorter window bounds what comes at once")
	}
	return errors.Join(burst, requireWindow(key+".window", cmp.Or(l.Window, settings.Duration(time.Minute))))
}

func (l *rateLimit) normalize(place string) error {
	l.Window = cmp.Or(l.Window, settings.Duration(time.Minute))
	l.Burst = cmp.Or(l.Burst, l.Calls)
	var errs []error
	if l.Calls <= 0 || l.Burst < 0 {
		errs = append(errs, settings.Wrong("config."+place, "calls and burst are counts above 0"))
	}
	for _, per := range l.Per {
		errs = append(errs, settings.OneOf(place+".per", &per, "caller", "session", "node", "tool", "extension"))
	}
	return errors.Join(errs...)
}

// Decide implements [governance.Policy].
func (p *rateLimiter) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow == governance.Response || !x.ToChild || x.Notify {
		return governance.Decision{}, nil
	}
	if p.shared != nil {
		return p.decideShared(ctx, x)
	}
	now := x.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	buckets := make([]*rate.Limiter, 0, 4) // on the stack, for the usual number of limits
	for i := range p.Limits {
		b := p.bucket(i, x)
		if b.TokensAt(now) < 1 {
			wait := time.Duration((1 - b.TokensAt(now)) / float64(b.Limit()) * float64(time.Second))
			return p.Limits[i].denial(max(wait, time.Millisecond)), nil
		}
		buckets = append(buckets, b)
	}
	for _, b := range buckets {
		b.AllowN(now, 1)
	}
	return governance.Decision{}, nil
}

func (p *rateLimiter) bucket(i int, x *governance.Exchange) *rate.Limiter {
	l := &p.Limits[i]
	b := p.buckets.get(l.key(i, x))
	if *b == nil {
		*b = rate.NewLimiter(rate.Limit(float64(l.Calls)/time.Duration(l.Window).Seconds()), l.Burst)
	}
	return *b
}

// key returns the bucket of limit i that x counts in.
func (l *rateLimit) key(i int, x *governance.Exchange) bucketKey {
	key := bucketKey{limit: i}
	for _, per := range l.Per {
		switch per {
		case "caller":
			key.caller = x.Caller
		case "session":
			key.caller, key.session = x.Caller, sessionOf(x)
		case "node":
			key.node = x.Node
		case "tool":
			key.tool = x.Tool
		case "extension":
			key.extension = x.Extension
		}
	}
	return key
}

func (l *rateLimit) denial(wait time.Duration) governance.Decision {
	scope := ""
	if len(l.Per) > 0 {
		scope = " for each " + strings.Join(l.Per, ", ")
	}
	return governance.Decision{
		Action:     governance.Deny,
		Code:       "rate_limited",
		RetryAfter: wait,
		Reason: fmt.Sprintf("at most %s%s; try again in %s", rateText(l.Calls, time.Duration(l.Window)), scope,
			wait.Round(time.Millisecond)),
	}
}

// rateText describes a limit: 1 call a minute, 60 calls in 1m30s.
func rateText(calls int, window time.Duration) string {
	noun := "calls"
	if calls == 1 {
		noun = "call"
	}
	span := map[time.Duration]string{
		time.Second:    "a second",
		time.Minute:    "a minute",
		time.Hour:      "an hour",
		24 * time.Hour: "a day",
	}[window]
	if span == "" {
		span = "in " + window.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(span, zero) {
				span = span[:len(span)-2]
			}
		}
	}
	return fmt.Sprintf("%d %s %s", calls, noun, span)
}
