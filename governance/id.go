package governance

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A decision id is 64 bits: milliseconds since 2020, then a 23-bit counter that starts at a random
// number. Ids of one process never repeat and sort by time; collisions between processes are unlikely.
const idCounterBits = 23

var (
	idEpoch  = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	idOffset = uint64(rand.Uint32N(1 << (idCounterBits - 1)))
	lastID   atomic.Uint64
)

// newID returns the next decision id, as 13 characters of Crockford's base 32.
func newID(now time.Time) string {
	first := uint64(now.UnixMilli()-idEpoch)<<idCounterBits | idOffset
	var id uint64
	for {
		last := lastID.Load()
		id = max(first, last+1)
		if lastID.CompareAndSwap(last, id) {
			break
		}
	}
	var text [13]byte
	for i := range text {
		text[len(text)-1-i] = "0123456789abcdefghjkmnpqrstvwxyz"[id&31]
		id >>= 5
	}
	return string(text[:])
}
