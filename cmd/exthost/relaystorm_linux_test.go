package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/internal/stormtest"
)

// BenchmarkRelayedCall compares a call through a relay with one of a client that has a host
// of its own: ratio is that of the medians.
func BenchmarkRelayedCall(b *testing.B) {
	processtest.Leaks(b)
	dir := project(b, map[string]string{"extensions/notes/plugin.toml": notesManifest})
	defer stopHosts(b, dir)
	own, relayed := startClient(b, dir, "--own"), startClient(b, dir)
	defer own.leave(b)
	defer relayed.leave(b)
	own.open(b)
	relayed.open(b)
	var of [2]stormtest.Durations
	for i := range b.N + 100 {
		for j, c := range []*client{own, relayed} {
			began := time.Now()
			if answer := c.say(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ext_notes_search","arguments":{"query":"milk"}}}`, i)); !strings.Contains(answer, `"result"`) {
				b.Fatal(answer)
			}
			if i >= 100 {
				of[j] = append(of[j], time.Since(began))
			}
		}
	}
	p50, relayedP50 := of[0].Quantile(0.5), of[1].Quantile(0.5)
	b.ReportMetric(float64(p50.Microseconds()), "own-p50-µs")
	b.ReportMetric(float64(relayedP50.Microseconds()), "relayed-p50-µs")
	b.ReportMetric(float64(relayedP50)/float64(p50), "ratio")
}
