// Package bench_test compares calls of extensions with calls by other means, each seen from outside: libraries over
// pipes, and gateways over HTTP. It is a module of its own to keep their dependencies out of exthost. Its tables are in
// docs/proof/benchmarks.md. To print them:
//
//	go test -run '^$' -bench . -benchtime 1x -timeout 30m | grep '^|'
package bench_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/testing/benchtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

const (
	turns    = 5
	turnTime = time.Second / 2 // some ways are slow
)

func TestMain(m *testing.M) {
	if _, child := os.LookupEnv(processtest.ScriptVar); child {
		processtest.Main(m, map[string]processtest.Verb{
			"floor":     benchtest.FloorVerb,
			"engine":    func(string) { serveEngine() },
			"extension": func(string) { os.Exit(extension().Main()) },
			"plugin":    servePlugin,
			"mcp-go":    func(string) { serveMCPGo() },
			"go-sdk":    func(string) { serveGoSDK() },
			"http":      serveGoSDKOverHTTP,
		})
	}
	code := m.Run()
	printTables()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// loads returns the loads of a comparison, with a limit for each turn.
func loads() []benchtest.Load {
	list := benchtest.Loads()
	for i := range list {
		list[i].Longest = turnTime
	}
	return list
}

// ways returns the ways of calling a child over pipes; the first is the floor.
func ways(tb testing.TB, l benchtest.Load) []benchtest.Way {
	return []benchtest.Way{
		l.Floor(tb),
		{Name: "the smallest engine of JSON-RPC", Call: engineCall(tb, l)},
		{Name: "**exthost**, `Host.Call`", Call: hostCall(tb, l, config.Default())},
		{Name: "**exthost**, governed", Call: hostCall(tb, l, governed(tb))},
		{Name: "go-plugin, net/rpc", Call: netRPCCall(tb, l)},
		{Name: "go-plugin, gRPC", Call: grpcCall(tb, l)},
		{Name: "mcp-go", Call: mcpGoCall(tb, l)},
		{Name: "go-sdk", Call: goSDKCall(tb, l)},
	}
}

// BenchmarkLibraries measures the ways of calling a child over pipes in turns.
func BenchmarkLibraries(b *testing.B) {
	for _, l := range loads() {
		b.Run(l.Name, func(b *testing.B) {
			all := ways(b, l)
			for b.Loop() {
				results := l.Measure(b, turns, all...)
				libraries.add(l, results)
				if l.Down < 1<<20 {
					librarySlow.addSlowest(fmt.Sprintf("%d at once", l.Callers), results)
				}
			}
		})
	}
}

// BenchmarkGateways measures the gateways in turns, for each client and each revision of MCP.
func BenchmarkGateways(b *testing.B) {
	for _, c := range clients {
		for _, l := range []benchtest.Load{benchtest.Sequential, benchtest.Callers64} {
			l.Calls, l.Longest = 4000, turnTime
			b.Run(c.name+"/"+l.Name, func(b *testing.B) {
				var all []benchtest.Way
				for _, s := range servers {
					if c.revision == modern && !s.modern {
						continue
					}
					if url, tool := s.start(b, c.revision); url != "" {
						all = append(all, benchtest.Way{Name: s.name, Call: c.calls(b, l, url, tool)})
					}
				}
				for b.Loop() {
					results := l.Measure(b, turns, all...)
					gateways.addClient(c.name, l, results)
					gatewaySlow.addSlowest(fmt.Sprintf("%s, %d at once", c.name, l.Callers), results)
				}
			})
		}
	}
}

// TestWaysAnswer makes one call of each kind under each load.
func TestWaysAnswer(t *testing.T) {
	for _, l := range loads() {
		for _, w := range ways(t, l) {
			if err := w.Call(); err != nil {
				t.Errorf("%s, %s: %v", l.Name, w.Name, err)
			}
		}
	}
}

// TestGatewaysAnswer makes one call of each kind through each gateway.
func TestGatewaysAnswer(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			for _, c := range clients {
				if c.revision == modern && !s.modern {
					continue
				}
				url, tool := s.start(t, c.revision)
				if url == "" {
					t.Skipf("NOT TESTED: %s names no program", tbxarkVar)
				}
				if err := c.calls(t, benchtest.Sequential, url, tool)(); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		})
	}
}
