package pair

import "sync/atomic"

// budget bounds the bytes of one purpose, of all pairs together.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reports whether n more bytes are within the limit; then they are used until give.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }
