// Package bench_test compares a call of a Go extension with a gRPC round trip of
// go-plugin and with the floor. It is a module of its own so that go-plugin and
// gRPC are no dependencies of exthost. Run it with
//
//	go test -run '^$' -bench . -benchtime 1x
package bench_test

import (
	"os"
	"testing"

	"github.com/exthost/exthost/internal/benchtest"
	"github.com/exthost/exthost/internal/process/processtest"
)

func TestMain(m *testing.M) {
	processtest.Main(m, map[string]processtest.Verb{
		"floor":     benchtest.FloorVerb,
		"extension": func(string) { os.Exit(extension().Main()) },
		"grpc":      func(string) { servePlugin() },
	})
}

// Benchmark lets the floor, Host.Call and go-plugin take turns.
func Benchmark(b *testing.B) {
	for _, l := range benchtest.Loads() {
		b.Run(l.Name, func(b *testing.B) {
			l.Compare(b, l.Floor(b),
				benchtest.Way{Name: "call", Call: hostCall(b, l)},
				benchtest.Way{Name: "grpc", Call: pluginCall(b, l)})
		})
	}
}

// TestWaysAnswer makes one call of each kind under each load.
func TestWaysAnswer(t *testing.T) {
	for _, l := range benchtest.Loads() {
		for name, call := range map[string]func() error{"call": hostCall(t, l), "grpc": pluginCall(t, l)} {
			if err := call(); err != nil {
				t.Errorf("%s, %s: %v", l.Name, name, err)
			}
		}
	}
}
