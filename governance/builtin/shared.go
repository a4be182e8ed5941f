package builtin

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/quota"
)

// The values of scope of the policies that count.
const (
	scopeNode    = "node"    // counts the requests at this host
	scopeCluster = "cluster" // counts the requests at all nodes of the cluster
)

// minSharedWindow is the shortest window of scope cluster: the servers expire counters after whole
// seconds.
const minSharedWindow = time.Second

// Sharer is a policy that may count for all nodes of a cluster.
type Sharer interface {
	governance.Policy
	// Shares reports whether the config states scope: cluster.
	Shares() bool
	// ShareBy makes the policy count for all nodes, with counters of the pool. It is called before
	// the first decision. Without a call, the policy counts for this host alone.
	ShareBy(*quota.Pool)
	// Shared returns the pool; nil without ShareBy.
	Shared() *quota.Pool
}

// Shares reports whether s states a policy that counts for all nodes of a cluster.
func Shares(s governance.Spec) bool {
	if s.Builtin != "rate_limit" && s.Builtin != "budget" {
		return false
	}
	p, err := New(s)
	if err != nil {
		return false
	}
	sharer, ok := p.(Sharer)
	return ok && sharer.Shares()
}

func requireWindow(key string, window settings.Duration) error {
	if time.Duration(window) < minSharedWindow {
		return settings.Wrong(key, "scope: cluster needs a window of at least %v, at whose end the nodes begin anew",
			minSharedWindow)
	}
	return nil
}

// Shares implements [Sharer].
func (p *rateLimiter) Shares() bool { return p.Scope == scopeCluster }

// ShareBy implements [Sharer].
func (p *rateLimiter) ShareBy(pool *quota.Pool) {
	p.shared = &quota.Counters[bucketKey]{
		Pool: pool,
		Claims: func(k bucketKey) []quota.Claim {
			l := &p.Limits[k.limit]
			key := fmt.Sprintf("%d %q %q %q %q %q", k.limit, k.caller, k.session, k.node, k.tool, k.extension)
			return []quota.Claim{{Policy: p.name, Key: key, Limit: int64(l.Calls), Window: time.Duration(l.Window)}}
		},
	}
}

// Shared implements [Sharer].
func (p *rateLimiter) Shared() *quota.Pool {
	if p.shared == nil {
		return nil
	}
	return p.shared.Pool
}

func (p *rateLimiter) decideShared(ctx context.Context, x *governance.Exchange) (governance.Decision, error) {
	var few [4]quota.Taken
	taken, now := few[:0], time.Now()
	for i := range p.Limits {
		l := &p.Limits[i]
		units, wait, err := p.take(ctx, l.key(i, x), now)
		if err == nil && wait == 0 {
			taken = append(taken, units)
			continue
		}
		for _, units := range taken {
			units.Back()
		}
		if err != nil {
			return governance.Decision{}, err
		}
		return l.denial(max(wait, time.Millisecond)), nil
	}
	return governance.Decision{}, nil
}

func (p *rateLimiter) take(ctx context.Context, key bucketKey, now time.Time) (quota.Taken, time.Duration, error) {
	list, err := p.shared.Of(key, now)
	if err != nil {
		return quota.Taken{}, 0, err
	}
	return list[0].Take(ctx, now, 1)
}

// Shares implements [Sharer].
func (p *budget) Shares() bool { return p.Scope == scopeCluster }

// ShareBy implements [Sharer].
func (p *budget) ShareBy(pool *quota.Pool) {
	p.shared = &quota.Counters[sessionKey]{
		Pool: pool,
		Claims: func(k sessionKey) (claims []quota.Claim) {
			for _, what := range p.counted() {
				claims = append(claims,
					quota.Claim{
						Policy: p.name,
						Key:    fmt.Sprintf("%s %q %q", what, k.caller, k.session),
						Limit:  p.limitOf(what),
						Window: time.Duration(p.Window),
					})
			}
			return claims
		},
	}
}

// Shared implements [Sharer].
func (p *budget) Shared() *quota.Pool {
	if p.shared == nil {
		return nil
	}
	return p.shared.Pool
}

// The shared counters of a budget.
const (
	countCalls = "calls"
	countBytes = "bytes" // for limits of bytes and of tokens
)

// counted returns the counters that have a limit.
func (p *budget) counted() []string {
	switch {
	case p.Calls == 0:
		return []string{countBytes}
	case p.limitOf(countBytes) == 0:
		return []string{countCalls}
	}
	return []string{countCalls, countBytes}
}

// limitOf returns the limit of a counter. For countBytes it is the smaller of the limits of bytes
// and of tokens, in bytes.
func (p *budget) limitOf(what string) int64 {
	tokens := min(p.Tokens, math.MaxInt64/bytesPerToken) * bytesPerToken
	switch {
	case what == countCalls:
		return p.Calls
	case p.Bytes == 0 || tokens > 0 && tokens < p.Bytes:
		return tokens
	}
	return p.Bytes
}

func (p *budget) decideShared(ctx context.Context, flow governance.Flow, key sessionKey, now time.Time,
	x *governance.Exchange) (governance.Decision, error) {
	list, err := p.shared.Of(key, now)
	if flow == governance.Response {
		if err == nil && p.limitOf(countBytes) > 0 { // err: the request flow failed with it too
			list[len(list)-1].Charge(now, int64(len(x.Response)))
		}
		return governance.Decision{}, nil
	}
	if err != nil {
		return governance.Decision{}, err
	}
	var before quota.Taken
	for i, c := range list {
		units, bytes := int64(1), i > 0 || p.Calls == 0
		if bytes {
			units = int64(len(x.Request))
		}
		taken, wait, err := c.Take(ctx, now, units)
		if err == nil && wait == 0 {
			before = taken
			continue
		}
		before.Back()
		if err != nil {
			return governance.Decision{}, err
		}
		return p.denial(p.limitText(bytes), max(wait, time.Millisecond)), nil
	}
	return governance.Decision{}, nil
}

// limitText names the limit of a counter.
func (p *budget) limitText(bytes bool) string {
	switch {
	case !bytes:
		return fmt.Sprintf("%d calls", p.Calls)
	case p.limitOf(countBytes) == p.Bytes:
		return fmt.Sprintf("%d bytes", p.Bytes)
	}
	return fmt.Sprintf("%d tokens", p.Tokens)
}
