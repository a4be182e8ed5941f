package stats

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/status"
)

const (
	unit        = time.Microsecond // shorter durations count as 0
	subBits     = 3
	sub         = 1 << subBits // buckets per power of two; a bucket's width is at most 1/8 of its lower bound
	maxPower    = 32           // number of powers of two; 2^32 µs are 71 minutes
	bucketCount = (maxPower - subBits + 1) * sub
)

// distribution counts durations in a histogram of fixed size, without locks, and estimates quantiles. The zero value is
// empty. It takes 2 KiB. Its methods are safe for concurrent use.
type distribution struct {
	counts [bucketCount]atomic.Uint64
	sum    atomic.Int64 // of all durations, in nanoseconds
}

// Record counts d. A duration of more than 71 minutes falls into the last bucket.
func (h *distribution) Record(d time.Duration) {
	h.counts[bucket(d)].Add(1)
	h.sum.Add(int64(d))
}

// The keys of [status.Durations.Below] are 2^lowest to 2^highest microseconds.
const lowest, highest = 7, 27

// Totals returns the counts so far, which never decrease. Durations recorded during the call may be missing.
func (h *distribution) Totals() status.Durations {
	t := status.Durations{
		Below: make(map[time.Duration]uint64, highest-lowest+1),
		Sum:   time.Duration(h.sum.Load()),
	}
	for i := range h.counts {
		if bound := lowerBound(i); i >= sub && i%sub == 0 && bound >= unit<<lowest && bound <= unit<<highest {
			t.Below[bound] = t.Count
		}
		t.Count += h.counts[i].Load()
	}
	return t
}

// bucket returns the bucket of d: one per unit below 8 units, and 8 of equal width for each power of two above.
func bucket(d time.Duration) int {
	n := uint64(max(d, 0) / unit)
	if n < sub {
		return int(n)
	}
	power := bits.Len64(n) - 1 // at least subBits
	if power >= maxPower {
		return bucketCount - 1
	}
	return (power-subBits+1)<<subBits + int(n>>(power-subBits))&(sub-1)
}

// lowerBound returns the shortest duration in bucket i.
func lowerBound(i int) time.Duration {
	if i < sub {
		return time.Duration(i) * unit
	}
	power := i>>subBits + subBits - 1
	return time.Duration(sub+i&(sub-1)) << (power - subBits) * unit
}

// Quantiles returns the q-quantile of the durations for each q between 0 and 1, exact to 7 % and a microsecond; nil if
// the histogram is empty. Durations recorded during the call may be missing.
func (h *distribution) Quantiles(qs ...float64) []time.Duration {
	var counts [bucketCount]uint64
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

// quantile returns the middle of the bucket with the rank-th duration.
func quantile(counts *[bucketCount]uint64, rank uint64) time.Duration {
	var seen uint64
	for i, n := range counts {
		seen += n
		if n > 0 && seen >= rank {
			return (lowerBound(i) + lowerBound(i+1)) / 2
		}
	}
	return lowerBound(bucketCount)
}
