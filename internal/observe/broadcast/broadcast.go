// Package broadcast delivers items to readers without waiting for them: each reader has a bounded queue, and a slow
// reader loses items and is told how many.
package broadcast

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// Limits of one reader's queue.
const (
	MaxItems = 1024
	MaxBytes = 4 << 20
)

// Hub delivers published items to its readers. The zero value is ready. Its methods are safe for concurrent use.
type Hub[T any] struct {
	count atomic.Int32 // number of readers

	mu      sync.Mutex // guards readers and their queues
	readers map[*Reader[T]]struct{}
	closed  bool
}

// Reader is one reader of a [Hub]. Its owner must call [Reader.Leave].
type Reader[T any] struct {
	hub        *Hub[T]
	filter     func(*T) bool
	queue      []Item[T]
	bytes      int
	lost       int
	overflowed bool          // lose all items until Take, so that there is a single gap
	more       chan struct{} // holds a token if Take has something to return
}

// Item is an item for one reader.
type Item[T any] struct {
	Value T
	Lost  int // items lost just before this one because the reader was too slow
}

// Readers returns the number of readers. It costs one atomic load, so publishers can check it before they build an
// item.
func (h *Hub[T]) Readers() int { return int(h.count.Load()) }

// Publish queues v for all readers whose filter accepts it. bytes is the size of v that counts against MaxBytes.
func (h *Hub[T]) Publish(v T, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if r.filter == nil || r.filter(&v) {
			r.push(v, bytes)
		}
	}
}

func (r *Reader[T]) push(v T, bytes int) {
	if r.overflowed = r.overflowed || len(r.queue) >= MaxItems || r.bytes+bytes > MaxBytes; r.overflowed {
		r.lost++
		return
	}
	r.queue, r.bytes, r.lost = append(r.queue, Item[T]{v, r.lost}), r.bytes+bytes, 0
	r.wake()
}

func (r *Reader[T]) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Join returns a reader of the items published from now on for which wants returns true; nil accepts all. wants runs
// under the hub's lock.
func (h *Hub[T]) Join(wants func(*T) bool) *Reader[T] {
	r := &Reader[T]{hub: h, filter: wants, more: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers == nil {
		h.readers = make(map[*Reader[T]]struct{})
	}
	h.readers[r] = struct{}{}
	h.count.Add(1)
	if h.closed {
		r.wake()
	}
	return r
}

// Leave removes the reader. It must be called once.
func (r *Reader[T]) Leave() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers, r)
	r.hub.count.Add(-1)
}

// More returns a channel that holds a token if Take has items to return or the hub is closed.
func (r *Reader[T]) More() <-chan struct{} { return r.more }

// Take returns the queued items, and whether the hub is closed, so that there will be no more.
func (r *Reader[T]) Take() (items []Item[T], closed bool) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	items, r.queue, r.bytes, r.overflowed = r.queue, nil, 0, false
	return items, r.hub.closed
}

// All yields items, each with the number of items lost just before it, until ctx ends or the hub is closed.
func (r *Reader[T]) All(ctx context.Context) iter.Seq2[T, int] {
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
func (h *Hub[T]) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.readers {
		r.wake()
	}
}
