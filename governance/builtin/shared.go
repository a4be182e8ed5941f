package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/governance/quota"
)

// The values of scope of the policies that count.
const (
	scopeNode    = "node"    // what passes this host
	scopeCluster = "cluster" // what passes any node of the cluster
)

// minSharedWindow is the shortest window of scope cluster: the servers forget a counter by the second.
const minSharedWindow = time.Second

// Sharer is a policy that may count for all nodes of a cluster.
type Sharer interface {
	governance.Policy
	// Shares reports whether it is to count for all nodes.
	Shares() bool
	// ShareBy has it count for all nodes, before it decides anything. Without it, it counts for
	// this host alone.
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
		return settings.Wrong(key, "scope: cluster needs a window of at least %v, at whose end the nodes begin anew", minSharedWindow)
	}
	return nil
}

// Shares implements [Sharer].
func (p *rateLimiter) Shares() bool { return p.Scope == scopeCluster }

// ShareBy implements [Sharer].
func (p *rateLimiter) ShareBy(pool *quota.Pool) {
	pool.Watch()
	p.shared = &quota.Counters[bucketKey]{Pool: pool, Claim: func(k bucketKey) quota.Claim {
		l := &p.Limits[k.limit]
		return quota.Claim{Policy: p.name, Key: fmt.Sprintf("%d %q %q %q %q %q", k.limit, k.caller, k.session, k.node, k.tool, k.extension), Limit: int64(l.Calls), Window: time.Duration(l.Window)}
	}}
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
		c, err := p.shared.Of(l.key(i, x), now)
		var units quota.Taken
		var wait time.Duration
		if err == nil {
			units, wait, err = c.Take(ctx, now, 1)
		}
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

// budgetKey identifies one counter of a budget.
type budgetKey struct {
	sessionKey
	bytes bool // else calls
}

// Shares implements [Sharer].
func (p *budget) Shares() bool { return p.Scope == scopeCluster }

// ShareBy implements [Sharer].
func (p *budget) ShareBy(pool *quota.Pool) {
	pool.Watch()
	p.shared = &quota.Counters[budgetKey]{Pool: pool, Claim: func(k budgetKey) quota.Claim {
		c := quota.Claim{Policy: p.name, Key: fmt.Sprintf("calls %q %q", k.caller, k.session), Limit: p.Calls, Window: time.Duration(p.Window)}
		if k.bytes {
			c.Key, c.Limit = fmt.Sprintf("bytes %q %q", k.caller, k.session), p.byteLimit()
		}
		return c
	}}
}

// Shared implements [Sharer].
func (p *budget) Shared() *quota.Pool {
	if p.shared == nil {
		return nil
	}
	return p.shared.Pool
}

// byteLimit is the smaller of the limits of bytes and of tokens, in bytes; 0: there is neither.
func (p *budget) byteLimit() int64 {
	if tokens := p.Tokens * bytesPerToken; p.Bytes == 0 || tokens > 0 && tokens < p.Bytes {
		return tokens
	}
	return p.Bytes
}

func (p *budget) decideShared(ctx context.Context, flow governance.Flow, key sessionKey, x *governance.Exchange) (governance.Decision, error) {
	now := time.Now()
	if flow == governance.Response {
		if p.byteLimit() == 0 {
			return governance.Decision{}, nil
		}
		if c, err := p.shared.Of(budgetKey{key, true}, now); err == nil { // the request has made it
			c.Charge(now, int64(len(x.Response)))
		}
		return governance.Decision{}, nil
	}
	var calls quota.Taken
	for _, counted := range []struct {
		limit, units int64
		bytes        bool
	}{{p.Calls, 1, false}, {p.byteLimit(), int64(len(x.Request)), true}} {
		if counted.limit == 0 {
			continue
		}
		c, err := p.shared.Of(budgetKey{key, counted.bytes}, now)
		var units quota.Taken
		var wait time.Duration
		if err == nil {
			units, wait, err = c.Take(ctx, now, counted.units)
		}
		if err == nil && wait == 0 {
			calls = units
			continue
		}
		calls.Back()
		if err != nil {
			return governance.Decision{}, err
		}
		return p.denial(p.limitText(counted.bytes), max(wait, time.Millisecond)), nil
	}
	return governance.Decision{}, nil
}

// limitText names the limit of a counter.
func (p *budget) limitText(bytes bool) string {
	switch {
	case !bytes:
		return fmt.Sprintf("%d calls", p.Calls)
	case p.byteLimit() == p.Bytes:
		return fmt.Sprintf("%d bytes", p.Bytes)
	}
	return fmt.Sprintf("%d tokens", p.Tokens)
}
