package builtin_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
)

// BenchmarkDecision reports the time in µs that one policy adds to an allowed exchange,
// including the pipeline's timeout, id, trace and both flows. The first policy does
// nothing.
func BenchmarkDecision(b *testing.B) {
	nothing := governance.Member{
		Spec:   governance.Spec{Name: "nothing", Category: governance.Authorization},
		Policy: nothing{},
	}
	b.Run("no policy", func(b *testing.B) { benchmark(b, governance.NewPipeline(governance.Options{})) })
	b.Run("a policy that does nothing", func(b *testing.B) { benchmark(b, traced(nothing)) })
	for _, policy := range []struct{ name, config string }{
		{"access", `{"default": "deny", "rules": [{"effect": "deny", "tools": ["ext_shell_*", "ext_*_delete"]}, {"effect": "allow", "callers": ["ada"], "tools": ["ext_files_*"]}]}`},
		{"rate_limit", `{"limits": [{"calls": 1000000000, "per": ["caller", "tool"]}, {"calls": 1000000000, "per": ["session"]}]}`},
		{"budget", `{"calls": 1000000000000, "bytes": 1000000000000000, "window": "24h"}`},
		{"loop", `{"calls": 1000, "window": "1us"}`},
		{"schema", `{"schemas": [{"tools": ["ext_files_*"], "arguments": {"properties": {"path": {"pattern": "^/home/"}}}}]}`},
		{"rate_limit", `{"limits": [{"calls": 1000000000000, "per": ["caller", "tool"]}, {"calls": 1000000000000, "per": ["session"]}], "scope": "cluster"}`},
		{"budget", `{"calls": 1000000000000, "bytes": 1000000000000000, "window": "24h", "scope": "cluster"}`},
	} {
		name := policy.name
		if strings.Contains(policy.config, "cluster") {
			name += " of scope cluster"
		}
		b.Run(name, func(b *testing.B) {
			p := newPolicy(b, policy.name, policy.config)
			if name != policy.name {
				p = shared(b, new(servers), policy.name, policy.config)
			}
			b.Run("alone", func(b *testing.B) {
				b.ReportAllocs()
				x := benchCall()
				for b.Loop() {
					if d, err := p.Decide(context.Background(), governance.Request, x); err != nil ||
						d.Action != governance.Allow {
						b.Fatal(d, err)
					}
				}
				micros(b)
			})
			b.Run("in a pipeline", func(b *testing.B) {
				benchmark(b, traced(governance.Member{Spec: spec(b, policy.name, policy.config), Policy: p}))
			})
		})
	}
}

// BenchmarkDenial reports the time of a denied exchange.
func BenchmarkDenial(b *testing.B) {
	p, err := builtin.New(spec(b, "access", `{"default": "deny"}`))
	if err != nil {
		b.Fatal(err)
	}
	pipeline := traced(governance.Member{Spec: spec(b, "access", `{}`), Policy: p})
	b.ReportAllocs()
	for b.Loop() {
		if err := pipeline.Govern(context.Background(), benchCall(), pass); err == nil {
			b.Fatal("it passed")
		}
	}
	micros(b)
}

type nothing struct{}

func (nothing) Decide(context.Context, governance.Flow, *governance.Exchange) (governance.Decision, error) {
	return governance.Decision{}, nil
}

func traced(m governance.Member) *governance.Pipeline {
	return governance.NewPipeline(governance.Options{Traces: governance.NewTraces(0)}, m)
}

func benchCall() *governance.Exchange {
	return &governance.Exchange{
		Method:    "tools/call",
		Caller:    "ada",
		Session:   "s1",
		Extension: "files",
		Tool:      "ext_files_read",
		ToChild:   true,
		Request:   json.RawMessage(`{"name":"read","arguments":{"path":"/home/ada/notes.txt","limit":1000}}`),
	}
}

func pass(_ context.Context, x *governance.Exchange) error {
	x.Response = json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`)
	return nil
}

func benchmark(b *testing.B, p *governance.Pipeline) {
	b.ReportAllocs()
	x := benchCall()
	for b.Loop() {
		if err := p.Govern(context.Background(), x, pass); err != nil {
			b.Fatal(err)
		}
	}
	micros(b)
}

func micros(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "µs/decision")
}
