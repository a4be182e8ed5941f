package concurrent

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// Limits of the queue of one reader of a [Broadcast].
const (
	MaxQueuedItems = 1024
	MaxQueuedBytes = 4 << 20
)

// Broadcast delivers published items to its readers without waiting for them: each reader has a bounded queue, and a
// slow reader loses items and is told how many. The zero value is ready. Its methods are safe for concurrent use.
type Broadcast[T any] struct {
	count atomic.Int32 // number of readers

	mu      sync.Mutex // guards readers and their queues
	readers map[*BroadcastReader[T]]struct{}
	closed  bool
}

// BroadcastReader is one reader of a [Broadcast]. Its owner must call [BroadcastReader.Leave].
type BroadcastReader[T any] struct {
	from       *Broadcast[T]
	filter     func(*T) bool
	queue      []BroadcastItem[T]
	bytes      int
	lost       int
	overflowed bool          // lose all items until Take, so that there is a single gap
	more       chan struct{} // holds a token if Take has something to return
}

// BroadcastItem is an item for one reader.
type BroadcastItem[T any] struct {
	Value T
	Lost  int // items lost just before this one because the reader was too slow
}

// Readers returns the number of readers. It costs one atomic load, so publishers can check it before they build an
// item.
func (b *Broadcast[T]) Readers() int { return int(b.count.Load()) }

// Publish queues v for all readers whose filter accepts it. bytes is the size of v that counts against MaxQueuedBytes.
func (b *Broadcast[T]) Publish(v T, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.readers {
		if r.filter == nil || r.filter(&v) {
			r.push(v, bytes)
		}
	}
}

func (r *BroadcastReader[T]) push(v T, bytes int) {
	if r.overflowed = r.overflowed || len(r.queue) >= MaxQueuedItems || r.bytes+bytes > MaxQueuedBytes; r.overflowed {
		r.lost++
		return
	}
	r.queue, r.bytes, r.lost = append(r.queue, BroadcastItem[T]{v, r.lost}), r.bytes+bytes, 0
	r.wake()
}

func (r *BroadcastReader[T]) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Join returns a reader of the items published from now on for which wants returns true; nil accepts all. wants runs
// under the lock of b.
func (b *Broadcast[T]) Join(wants func(*T) bool) *BroadcastReader[T] {
	r := &BroadcastReader[T]{from: b, filter: wants, more: make(chan struct{}, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers == nil {
		b.readers = make(map[*BroadcastReader[T]]struct{})
	}
	b.readers[r] = struct{}{}
	b.count.Add(1)
	if b.closed {
		r.wake()
	}
	return r
}

// Leave removes the reader. It must be called once.
func (r *BroadcastReader[T]) Leave() {
	r.from.mu.Lock()
	defer r.from.mu.Unlock()
	delete(r.from.readers, r)
	r.from.count.Add(-1)
}

// More returns a channel that holds a token if Take has items to return or its Broadcast is closed.
func (r *BroadcastReader[T]) More() <-chan struct{} { return r.more }

// Take returns the queued items, and whether the Broadcast is closed, so that there will be no more.
func (r *BroadcastReader[T]) Take() (items []BroadcastItem[T], closed bool) {
	r.from.mu.Lock()
	defer r.from.mu.Unlock()
	items, r.queue, r.bytes, r.overflowed = r.queue, nil, 0, false
	return items, r.from.closed
}

// All yields items, each with the number of items lost just before it, until ctx ends or its Broadcast is closed.
func (r *BroadcastReader[T]) All(ctx context.Context) iter.Seq2[T, int] {
	return func(yield func(T, int) bool) {
		for {
			select {
			case <-r.more:
			case <-ctx.Done():
				return
			}
			items, closed := r.Take()
			for _, i := range items {
				if ctx.Err() != nil || !yield(i.Value, i.Lost) {
					return
				}
			}
			if closed {
				return
			}
		}
	}
}

// Close ends all readers after their queued items. It is idempotent.
func (b *Broadcast[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for r := range b.readers {
		r.wake()
	}
}
