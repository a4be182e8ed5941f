package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/quota"
	"github.com/exthost/exthost/protocol"
)

// servers are the counters that several hosts share; they grant leases of an eighth of a limit.
type servers struct {
	mu    sync.Mutex
	taken map[string]int64
	err   error
}

func (s *servers) Reach(context.Context) error { return nil }

func (s *servers) Lease(_ context.Context, c quota.Claim) (quota.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return quota.Lease{}, s.err
	}
	if s.taken == nil {
		s.taken = make(map[string]int64)
	}
	start := time.Now().Truncate(c.Window)
	held := -c.Debt
	if c.Of == start.UnixNano() {
		held += c.Held
	}
	key := start.String() + c.Policy + c.Key
	size, free := max(c.Limit/8, 1), c.Limit-s.taken[key]
	units := min(max(size-held, 0), free)
	s.taken[key] += units
	return quota.Lease{
		Of:    start.UnixNano(),
		Units: units,
		Size:  size,
		Last:  units == free,
		Ends:  start.Add(c.Window),
	}, nil
}

// shared returns a policy that counts with the servers.
func shared(t testing.TB, s quota.Source, name, text string) governance.Policy {
	t.Helper()
	pool := quota.NewPool(s)
	t.Cleanup(func() {
		if err := pool.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	p := newPolicy(t, name, text).(builtin.Sharer)
	if !p.Shares() || !builtin.Shares(spec(t, name, text)) {
		t.Fatalf("%s counts alone", text)
	}
	p.ShareBy(pool)
	return p
}

// Two hosts together allow as much as one.
func TestScopeCluster(t *testing.T) {
	x := call("read", `{"a":1}`) // 59 bytes
	x.Response = json.RawMessage(strings.Repeat("x", 100))
	for _, tt := range []struct {
		name, policy, config string
		calls                int // with a limit of bytes, the last call of each host may exceed it
		want                 string
	}{
		{"rate", "rate_limit", `{"limits": [{"calls": 20, "per": ["caller"]}], "scope": "cluster"}`, 20,
			"deny rate_limited: at most 20 calls a minute for each caller; try again in 1m0s (1m0s)"},
		{"two rates", "rate_limit",
			`{"limits": [{"calls": 20, "per": ["caller"]}, {"calls": 3, "window": "1h", "per": ["session", "tool"]}], "scope": "cluster"}`, 3, "deny rate_limited: at most 3 calls an hour for each session, tool; try again in 1h0m0s (1h0m0s)"},
		{"calls", "budget", `{"calls": 9, "window": "24h", "scope": "cluster"}`, 9,
			"deny budget_exceeded: the budget of 9 calls for this session is used up; the next one begins in 24h0m0s " +
				"(24h0m0s)"},
		{"bytes", "budget", `{"bytes": 400, "calls": 1000, "window": "24h", "scope": "cluster"}`, 4,
			"deny budget_exceeded: the budget of 400 bytes for this session is used up; the next one begins in " +
				"24h0m0s (24h0m0s)"},
		{"tokens without end", "budget",
			`{"calls": 9, "tokens": 4000000000000000000, "window": "24h", "scope": "cluster"}`, 9,
			"deny budget_exceeded: the budget of 9 calls for this session is used up; the next one begins in 24h0m0s " +
				"(24h0m0s)"},
		{"tokens", "budget", `{"bytes": 4000, "tokens": 100, "window": "24h", "per": "caller", "scope": "cluster"}`, 4,
			"deny budget_exceeded: the budget of 100 tokens for this caller is used up; the next one begins in " +
				"24h0m0s (24h0m0s)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(servers)
				hosts := []governance.Policy{shared(t, s, tt.policy, tt.config), shared(t, s, tt.policy, tt.config)}
				allowed, denied := 0, map[int]string{}
				for i := 0; len(denied) < len(hosts); i++ {
					p := hosts[i%2]
					got := ask(t, p, governance.Request, x)
					synctest.Wait() // leases ahead of need
					if got != "allow" {
						denied[i%2] = got
						continue
					}
					allowed++
					if got := ask(t, p, governance.Response, x); got != "allow" {
						t.Fatal(got)
					}
					synctest.Wait()
				}
				if allowed != tt.calls || denied[0] != tt.want || denied[1] != tt.want {
					t.Errorf("%d calls of %d; %v", allowed, tt.calls, denied)
				}
				other := x
				other.Caller = "bob"
				if got := ask(t, hosts[0], governance.Request, other); got != "allow" {
					t.Error(got)
				}
				time.Sleep(24 * time.Hour)
				if got := ask(t, hosts[1], governance.Request, x); got != "allow" {
					t.Errorf("in the next window: %s", got)
				}
			})
		})
	}
}

// A call that one limit allows and another denies counts for neither.
func TestScopeClusterGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shared(t, new(servers), "rate_limit",
			`{"limits": [{"calls": 4}, {"calls": 1, "per": ["tool"]}], "scope": "cluster"}`)
		for _, tt := range []struct{ tool, want string }{
			{"a", "allow"},
			{"a", "deny"},
			{"a", "deny"},
			{"a", "deny"},
			{"b", "allow"},
			{"c", "allow"},
			{"d", "allow"},
			{"e", "deny"},
		} {
			if got := ask(t, p, governance.Request, call(tt.tool, `{}`)); !strings.HasPrefix(got, tt.want) {
				t.Errorf("%s: %s", tt.tool, got)
			}
			synctest.Wait()
		}
	})
}

// While the counters are unreachable, hosts use their leases; after that a required policy denies
// and an optional one allows.
func TestScopeClusterUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const config = `{"limits": [{"calls": 80}], "scope": "cluster"}`
		for _, required := range []bool{true, false} {
			s := new(servers)
			sp := spec(t, "rate_limit", config)
			sp.Required = new(required)
			pipeline := governance.NewPipeline(governance.Options{},
				governance.Member{Spec: sp, Policy: shared(t, s, "rate_limit", config)})
			try := func() error {
				err := pipeline.Govern(t.Context(), benchCall(), pass)
				synctest.Wait()
				return err
			}
			if err := try(); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			s.err = errors.New("the servers of the cluster do not answer")
			s.mu.Unlock()
			for i := range 9 {
				if err := try(); err != nil {
					t.Fatalf("call %d of a lease of 10: %v", i+2, err)
				}
			}
			err := try()
			e, _ := errors.AsType[*protocol.Error](err)
			if required != (err != nil) ||
				required && (e.Kind != protocol.GovernanceUnavailable ||
					!strings.Contains(err.Error(), "do not answer")) {
				t.Errorf("required %t: %v", required, err)
			}
			if err := pipeline.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
