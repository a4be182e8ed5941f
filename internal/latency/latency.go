// Package latency counts how long things took, in little memory and without
// locks, well enough to say what most of them took.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	unit    = time.Microsecond // what is shorter counts as 0
	subBits = 3
	sub     = 1 << subBits // buckets for each power of two, so that a bucket is at most 1/8 of its bound wide
	top     = 32           // powers of two that are told apart; 2^32 µs are 71 minutes
	buckets = (top - subBits + 1) * sub
)

// Histogram counts durations. The zero value is empty and takes 2 KiB however
// much it counts. Its methods may be called by many goroutines at once.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Int64 // of the durations, in nanoseconds
}

// Record counts d. What is longer than 71 minutes counts as that.
func (h *Histogram) Record(d time.Duration) {
	h.counts[bucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// Totals is what a histogram has counted.
type Totals struct {
	Count uint64
	Sum   time.Duration
	Below map[time.Duration]uint64 // how many were shorter than 128 µs, 256 µs and so on, up to 134 s; each as exact as a microsecond
}

// The powers of two, in microseconds, that bound the counts of Totals.
const lowest, highest = 7, 27

// Totals returns what was counted so far. What is recorded meanwhile may count or
// not, and later totals are never less.
func (h *Histogram) Totals() Totals {
	t := Totals{Below: make(map[time.Duration]uint64, highest-lowest+1), Sum: time.Duration(h.sum.Load())}
	for i := range h.counts {
		if bound := lower(i); i >= sub && i%sub == 0 && bound >= unit<<lowest && bound <= unit<<highest {
			t.Below[bound] = t.Count
		}
		t.Count += h.counts[i].Load()
	}
	return t
}

// bucket is exact below 8 units and linear within each power of two above.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0) / unit)
	if n < sub {
		return int(n)
	}
	power := bits.Len64(n) - 1 // at least subBits
	if power >= top {
		return buckets - 1
	}
	return (power-subBits+1)<<subBits + int(n>>(power-subBits))&(sub-1)
}

// lower is the shortest duration of bucket i.
func lower(i int) time.Duration {
	if i < sub {
		return time.Duration(i) * unit
	}
	power := i>>subBits + subBits - 1
	return time.Duration(sub+i&(sub-1)) << (power - subBits) * unit
}

// Quantiles returns for each q, between 0 and 1, what that part of the durations
// took at most, within 7 % and a microsecond; nil when nothing was counted. What
// is recorded meanwhile may count or not.
func (h *Histogram) Quantiles(qs ...float64) []time.Duration {
	var counts [buckets]uint64
	var total uint64
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
		total += counts[i]
	}
	if total == 0 {
		return nil
	}
	out := make([]time.Duration, len(qs))
	for i, q := range qs {
		out[i] = quantile(&counts, max(1, uint64(q*float64(total)+0.5)))
	}
	return out
}

// quantile returns the middle of the bucket that holds the rank-th duration.
func quantile(counts *[buckets]uint64, rank uint64) time.Duration {
	var seen uint64
	for i, n := range counts {
		seen += n
		if n > 0 && seen >= rank {
			return (lower(i) + lower(i+1)) / 2
		}
	}
	return lower(buckets)
}
