package pair

import "sync/atomic"

// budget bounds the bytes that all pairs together use for one purpose.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes until give, or reports false if they exceed the limit.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }
