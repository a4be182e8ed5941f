// Package stormtest supports tests of two sizes: a small one for every run, and the full
// one, with EXTHOST_STORM=1, which needs the whole machine and also measures the product's
// claims about time.
package stormtest

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Full reports whether tests run at full size.
var Full = os.Getenv("EXTHOST_STORM") != ""

// Racing reports whether the race detector is in this binary.
var Racing = sync.OnceValue(func() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

// Sized returns the value for the current size.
func Sized[T any](small, full T) T {
	if Full {
		return full
	}
	return small
}

// Durations are repeated measurements of one operation.
type Durations []time.Duration

// Quantile returns the quantile q of the durations, 0 when there are none.
func (d Durations) Quantile(q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func (d Durations) String() string {
	round := func(q float64) time.Duration { return d.Quantile(q).Round(10 * time.Microsecond) }
	return fmt.Sprintf("n %d, p50 %v, p99 %v, max %v", len(d), round(0.5), round(0.99), round(1))
}

// Load returns the load average of the machine, for the log.
func Load() string {
	average, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(average), " ")
	return fmt.Sprintf("%s on %d processors", one, runtime.NumCPU())
}

// Claim compares the result of measure with a limit; the second result describes the
// measurement. At full size measure runs up to five times, because other processes may
// disturb it, and waits before each repetition for the machine to be quiet. At small size
// the result is only logged: other packages' tests run at the same time, and the machine
// may be busy.
func Claim[T int | float64 | time.Duration](t *testing.T, what string, limit T, measure func() (T, string)) {
	t.Helper()
	for tries := Sized(1, 5); ; tries-- {
		got, how := measure()
		t.Logf("%s: %v, at most %v: %s; load %s", what, got, limit, how, Load())
		if got <= limit || !Full {
			return
		}
		if tries == 1 {
			t.Errorf("%s: %v is more than %v", what, got, limit)
			return
		}
		t.Logf("waited %v for the machine to be quiet", awaitQuiet().Round(time.Second))
	}
}

// patience is how long all tests of a binary wait together for a quiet machine.
var patience = 4 * time.Minute

// awaitQuiet waits, for at most a minute, until threads run as soon as they are ready, and returns how long it waited.
func awaitQuiet() (waited time.Duration) {
	began := time.Now()
	for wait := min(time.Minute, patience); waited < wait && lateness() > 2*time.Millisecond; {
		waited = time.Since(began)
	}
	patience -= waited
	return waited
}

// lateness returns the p99 of how late short sleeps ended, over about a second.
func lateness() time.Duration {
	var late Durations
	for range 500 {
		began := time.Now()
		time.Sleep(time.Millisecond)
		late = append(late, time.Since(began)-time.Millisecond)
	}
	return late.Quantile(0.99)
}
