package process

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/exthost/exthost/internal/proc/containment/helper"
)

// Trim releases memory that only the start of this process needed: garbage, and pages of the program, see
// [helper.UnmapProgram]. It takes some milliseconds that slow down calls, so call it at the end of a start.
func Trim() {
	debug.FreeOSMemory()
	helper.UnmapProgram()
}

// TrimAfterWork calls Trim each time this process rests after work, until ctx ends. Work leaves garbage that is not
// collected before the next work, and pages of the program that only a busy host needs.
func TrimAfterWork(ctx context.Context) { trimAfterWork(ctx, Trim) }

const (
	restPeriod = 2 * time.Second // without a garbage collection; the runtime makes one every 2 minutes by itself
	workCycles = 4               // garbage collections that make up work worth a trim
)

func trimAfterWork(ctx context.Context, trim func()) {
	tick := time.NewTicker(restPeriod)
	defer tick.Stop()
	trimmed := gcCycles()
	for last := trimmed; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := gcCycles()
		if now == last && now-trimmed >= workCycles {
			trim()
			now = gcCycles()
			trimmed = now
		}
		last = now
	}
}

// gcCycles returns how many garbage collections the program's allocations have caused.
func gcCycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
