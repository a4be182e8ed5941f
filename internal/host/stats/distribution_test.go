package stats

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Quantiles are close to those of sorted durations.
func TestQuantilesAgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() time.Duration{
		"even":        func() time.Duration { return time.Duration(r.Int64N(int64(time.Second))) },
		"many orders": func() time.Duration { return time.Duration(1<<r.IntN(41)) + time.Duration(r.Int64N(1000)) },
		"all alike":   func() time.Duration { return 137 * time.Microsecond },
		"short":       func() time.Duration { return time.Duration(r.Int64N(int64(20 * time.Microsecond))) },
	} {
		t.Run(name, func(t *testing.T) {
			var h distribution
			list := make([]time.Duration, 10_000)
			for i := range list {
				list[i] = draw()
				h.Record(list[i])
			}
			slices.Sort(list)
			qs := []float64{0, 0.5, 0.95, 0.99, 1}
			for i, got := range h.Quantiles(qs...) {
				want := list[min(len(list)-1, int(qs[i]*float64(len(list))))]
				if qs[i] == 0.5 || qs[i] == 0.95 || qs[i] == 0.99 {
					want = list[int(qs[i]*float64(len(list)))-1]
				}
				if off := (got - want).Abs(); off > want*7/100+time.Microsecond {
					t.Errorf("quantile %v: %v, the list says %v", qs[i], got, want)
				}
			}
		})
	}
}

func TestEmptyDistributionAndExtremes(t *testing.T) {
	var h distribution
	if got := h.Quantiles(0.5); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	h.Record(-time.Second)
	if got := h.Quantiles(0.5)[0]; got > time.Microsecond {
		t.Errorf("of a negative duration: %v", got)
	}
	h.Record(1000 * time.Hour)
	if got := h.Quantiles(1)[0]; got < 60*time.Minute {
		t.Errorf("of a thousand hours: %v", got)
	}
}

// Buckets are contiguous and in order: an upper bound is in the next bucket.
func TestBucketsMeet(t *testing.T) {
	for i := range bucketCount {
		if got := bucket(lowerBound(i)); got != i {
			t.Errorf("bucket %d begins at %v, which is in bucket %d", i, lowerBound(i), got)
		}
		if i > 0 && bucket(lowerBound(i)-1) != i-1 {
			t.Errorf("just before bucket %d is bucket %d", i, bucket(lowerBound(i)-1))
		}
	}
}

func TestConcurrentRecords(t *testing.T) {
	var h distribution
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				h.Record(time.Millisecond)
				h.Quantiles(0.5)
			}
		})
	}
	wg.Wait()
	if n := h.counts[bucket(time.Millisecond)].Load(); n != 8000 {
		t.Errorf("%d of 8000 were counted", n)
	}
}

func BenchmarkDistribution(b *testing.B) {
	var h distribution
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Record(300 * time.Microsecond)
		}
	})
}

// Totals equal the counts in a sorted list and never decrease.
func TestTotals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var h distribution
	var list []time.Duration
	var sum time.Duration
	for range 10_000 {
		d := time.Duration(1<<r.IntN(41)) + time.Duration(r.Int64N(1000))
		h.Record(d)
		list, sum = append(list, d), sum+d
	}
	slices.Sort(list)
	got := h.Totals()
	if got.Count != 10_000 || got.Sum != sum || len(got.Below) != 21 {
		t.Errorf("%d, %v of %v, %d bounds", got.Count, got.Sum, sum, len(got.Below))
	}
	for bound, n := range got.Below {
		if want, _ := slices.BinarySearch(list, bound); n != uint64(want) {
			t.Errorf("%d below %v, want %d", n, bound, want)
		}
	}
	h.Record(200 * time.Microsecond)
	if later := h.Totals(); later.Below[128*time.Microsecond] != got.Below[128*time.Microsecond] ||
		later.Below[256*time.Microsecond] != got.Below[256*time.Microsecond]+1 {
		t.Errorf("%v", later)
	}
}
