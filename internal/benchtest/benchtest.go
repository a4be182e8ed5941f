// Package benchtest compares ways of calling a child process. The first way is usually the
// floor: a child that copies bytes over pipes. The ways take turns, so that disturbances
// affect all of them, and the median of nine turns counts.
package benchtest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Load describes the calls of a benchmark.
type Load struct {
	Name     string
	Up, Down int // bytes of payload in a call and in its answer
	Callers  int // concurrent callers
	Calls    int // per turn, of all callers together
}

// The loads of every comparison.
var (
	Sequential = Load{"sequential/100B", 100, 100, 1, 10_000}
	Callers16  = Load{"callers16/100B", 100, 100, 16, 40_000}
	Callers64  = Load{"callers64/100B", 100, 100, 64, 40_000}
	BigResult  = Load{"sequential/1MiB-result", 100, 1 << 20, 1, 100}
	BigBoth    = Load{"sequential/1MiB-both-ways", 1 << 20, 1 << 20, 1, 100}
)

// Loads returns all loads.
func Loads() []Load { return []Load{Sequential, Callers16, Callers64, BigResult, BigBoth} }

// Way is one way of calling. Call must be safe for concurrent use.
type Way struct {
	Name string
	Call func() error
}

const turns = 9

// Compare reports the medians of p50 and of calls per second for each way, and their ratios
// to those of each way before it. It fails at the first error.
func (l Load) Compare(b *testing.B, ways ...Way) {
	b.Helper()
	for b.Loop() {
		p50 := make([][]time.Duration, len(ways))
		rate := make([][]float64, len(ways))
		for range turns {
			for i, w := range ways {
				median, total := l.turn(b, w)
				p50[i] = append(p50[i], median)
				rate[i] = append(rate[i], float64(l.Calls)/total.Seconds())
			}
		}
		for i, w := range ways {
			b.ReportMetric(float64(median(p50[i])), w.Name+"-p50-ns")
			b.ReportMetric(median(rate[i]), w.Name+"-calls/s")
			for j, before := range ways[:i] {
				b.ReportMetric(float64(median(p50[i]))/float64(median(p50[j])), w.Name+"/"+before.Name+"-p50")
				b.ReportMetric(median(rate[i])/median(rate[j]), w.Name+"/"+before.Name+"-calls/s")
			}
		}
	}
	b.ReportMetric(0, "ns/op") // meaningless for several ways
}

// turn makes the calls of one turn and returns the median and the total time.
func (l Load) turn(b *testing.B, w Way) (p50, total time.Duration) {
	var left atomic.Int64
	left.Store(int64(l.Calls))
	took := make([][]time.Duration, l.Callers)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	for i := range took {
		wg.Go(func() {
			for left.Add(-1) >= 0 && failed.Load() == nil {
				t := time.Now()
				if err := w.Call(); err != nil {
					failed.Store(&err)
				}
				took[i] = append(took[i], time.Since(t))
			}
		})
	}
	wg.Wait()
	total = time.Since(start)
	if err := failed.Load(); err != nil {
		b.Fatalf("%s: %v", w.Name, *err)
	}
	return median(slices.Concat(took...)), total
}

func median[T cmp.Ordered](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
