// Package benchtest compares ways of calling a child process. The first way is usually the floor: a child that copies
// bytes over pipes. The ways take turns, so that disturbances affect all of them, and the result is the median of nine
// turns.
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
	Up, Down int           // bytes of payload in a call and in its answer
	Callers  int           // concurrent callers
	Calls    int           // per turn, of all callers together
	Longest  time.Duration // maximum duration of a turn, which then makes no more calls; 0: none
}

// The loads of every comparison.
var (
	Sequential = Load{Name: "sequential/100B", Up: 100, Down: 100, Callers: 1, Calls: 10_000}
	Callers16  = Load{Name: "callers16/100B", Up: 100, Down: 100, Callers: 16, Calls: 40_000}
	Callers64  = Load{Name: "callers64/100B", Up: 100, Down: 100, Callers: 64, Calls: 40_000}
	BigResult  = Load{Name: "sequential/1MiB-result", Up: 100, Down: 1 << 20, Callers: 1, Calls: 100}
	BigBoth    = Load{Name: "sequential/1MiB-both-ways", Up: 1 << 20, Down: 1 << 20, Callers: 1, Calls: 100}
	HugeResult = Load{Name: "sequential/10MiB-result", Up: 100, Down: 10 << 20, Callers: 1, Calls: 20}
	HugeBoth   = Load{Name: "sequential/10MiB-both-ways", Up: 10 << 20, Down: 10 << 20, Callers: 1, Calls: 20}
)

// Loads returns all loads.
func Loads() []Load {
	return []Load{Sequential, Callers16, Callers64, BigResult, BigBoth, HugeResult, HugeBoth}
}

// Way is one way of calling. Call must be safe for concurrent use.
type Way struct {
	Name string
	Call func() error
}

// Result has the medians of one way: of each percentile of a turn's calls, and of its rate.
type Result struct {
	Name string
	P50  time.Duration
	P99  time.Duration
	P999 time.Duration
	Rate float64 // calls per second, of all callers together
}

// Measure lets the ways take turns and returns the medians for each. It fails at the first
// error.
func (l Load) Measure(tb testing.TB, turns int, ways ...Way) []Result {
	tb.Helper()
	each := make([][]Result, len(ways))
	for range turns {
		for i, w := range ways {
			took, total := l.turn(tb, w)
			slices.Sort(took)
			each[i] = append(each[i], Result{
				P50:  took[len(took)/2],
				P99:  took[len(took)*99/100],
				P999: took[len(took)*999/1000],
				Rate: float64(len(took)) / total.Seconds(),
			})
		}
	}
	results := make([]Result, len(ways))
	for i, w := range ways {
		results[i] = Result{
			Name: w.Name,
			P50:  median(each[i], func(r Result) time.Duration { return r.P50 }),
			P99:  median(each[i], func(r Result) time.Duration { return r.P99 }),
			P999: median(each[i], func(r Result) time.Duration { return r.P999 }),
			Rate: median(each[i], func(r Result) float64 { return r.Rate }),
		}
	}
	return results
}

const turns = 9

// Compare reports the medians of p50 and of calls per second for each way, and their ratios
// to those of each way before it. It fails at the first error.
func (l Load) Compare(b *testing.B, ways ...Way) {
	b.Helper()
	for b.Loop() {
		results := l.Measure(b, turns, ways...)
		for i, r := range results {
			b.ReportMetric(float64(r.P50), r.Name+"-p50-ns")
			b.ReportMetric(r.Rate, r.Name+"-calls/s")
			for _, before := range results[:i] {
				b.ReportMetric(float64(r.P50)/float64(before.P50), r.Name+"/"+before.Name+"-p50")
				b.ReportMetric(r.Rate/before.Rate, r.Name+"/"+before.Name+"-calls/s")
			}
		}
	}
	b.ReportMetric(0, "ns/op") // meaningless for several ways
}

// turn makes the calls of one turn and returns what each took, and the total time.
func (l Load) turn(tb testing.TB, w Way) (took []time.Duration, total time.Duration) {
	var left atomic.Int64
	left.Store(int64(l.Calls))
	each := make([][]time.Duration, l.Callers)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	start := time.Now()
	for i := range each {
		wg.Go(func() {
			for left.Add(-1) >= 0 && failed.Load() == nil {
				t := time.Now()
				if l.Longest > 0 && t.Sub(start) > l.Longest {
					return
				}
				if err := w.Call(); err != nil {
					failed.Store(&err)
				}
				each[i] = append(each[i], time.Since(t))
			}
		})
	}
	wg.Wait()
	total = time.Since(start)
	if err := failed.Load(); err != nil {
		tb.Fatalf("%s: %v", w.Name, *err)
	}
	return slices.Concat(each...), total
}

func median[T cmp.Ordered](turns []Result, of func(Result) T) T {
	var list []T
	for _, r := range turns {
		list = append(list, of(r))
	}
	slices.Sort(list)
	return list[len(list)/2]
}
