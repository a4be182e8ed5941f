package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost"
)

func TestStatusRows(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	soon := now.Add(1500 * time.Millisecond)
	s := runningStatus{Serves: "stdio", Status: exthost.Status{Version: "1.0.0", Host: &exthost.HostStatus{PID: 1, StartedAt: now.Add(-26 * time.Hour), RSS: 20 << 20},
		Extensions: []exthost.ExtensionStatus{
			{ID: "one", State: "ready", Calls: 1000, Errors: 4, Refused: 1, Latency: &exthost.Latency{P50: 350 * time.Microsecond, P95: 12345 * time.Microsecond}, Restarts: 2,
				Instances: []exthost.InstanceStatus{{State: "ready", Reason: "an old story", PID: 7, StartedAt: now.Add(-90 * time.Minute), RSS: 3 << 30, Breaker: "closed", Queued: 3}}},
			{ID: "back", State: "restarting", Reason: "it died", Instances: []exthost.InstanceStatus{{State: "restarting", Reason: "it died", NextRetry: &soon, Breaker: "open"}}},
			{ID: "two", State: "ready", Instances: []exthost.InstanceStatus{{Key: "0", State: "ready", PID: 8, StartedAt: now.Add(-5 * time.Second), Breaker: "closed"}, {Key: "1", State: "failed", Reason: "spent", Breaker: "closed"}}},
			{ID: "gated", State: "skipped", Reason: "no ffmpeg"},
		}}}
	var got []string
	for _, row := range statusRows(s, now) {
		got = append(got, strings.Join(row, "|"))
	}
	want := []string{
		"exthost 1.0.0, pid 1, up 1d2h, 20 MiB, stdio",
		"",
		"ID|STATE|PID|UP|CALLS|ERRORS|P50|P95|RSS|RESTARTS|BREAKER|NOTE",
		"one|ready|7|1h30m|1000|5 (0.5%)|350µs|12.3ms|3 GiB|2|closed|3 calls wait",
		"back|restarting|-|-|0|0|-|-|-|0|open|it died; next try in 1.5s",
		"two|ready|-|-|0|0|-|-|-|0|-|",
		"  0|ready|8|5s|||||-|0|closed|",
		"  1|failed|-|-|||||-|0|closed|spent",
		"gated|skipped|-|-|0|0|-|-|-|0|-|no ffmpeg",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
