// Package broadcast hands items to readers without waiting for them: each has a
// bounded queue, and one that is slow loses items and is told how many.
package broadcast

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// What waits for one reader at most.
const (
	MaxItems = 1024
	MaxBytes = 4 << 20
)

// Hub is where items meet readers. Its zero value is ready for use, and its methods
// may be called by many goroutines at once.
type Hub[T any] struct {
	count atomic.Int32 // of readers

	mu      sync.Mutex // guards readers and what they hold
	readers map[*Reader[T]]struct{}
	closed  bool
}

// Reader is one who reads. Its owner calls [Reader.Leave] in the end.
type Reader[T any] struct {
	hub    *Hub[T]
	wants  func(*T) bool
	queue  []Item[T]
	bytes  int
	lost   int
	behind bool          // loses all until the queue is taken: one gap, not one around each item that would still fit
	more   chan struct{} // holds a token when there is something to take
}

// Item is an item as a reader gets it.
type Item[T any] struct {
	Value T
	Lost  int // items that the reader was too slow for, just before this one
}

// Readers returns how many read. It costs one atomic load, so that what makes items
// need not make them for nobody.
func (h *Hub[T]) Readers() int { return int(h.count.Load()) }

// Publish hands v, of so many bytes, to all who want it.
func (h *Hub[T]) Publish(v T, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if r.wants == nil || r.wants(&v) {
			r.offer(v, bytes)
		}
	}
}

func (r *Reader[T]) offer(v T, bytes int) {
	if r.behind = r.behind || len(r.queue) >= MaxItems || r.bytes+bytes > MaxBytes; r.behind {
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

// Join returns a reader of what is published from now on and wants accepts, nil for
// everything. It is asked while the hub is locked.
func (h *Hub[T]) Join(wants func(*T) bool) *Reader[T] {
	r := &Reader[T]{hub: h, wants: wants, more: make(chan struct{}, 1)}
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

// Leave ends the reader. It is called once.
func (r *Reader[T]) Leave() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.readers, r)
	r.hub.count.Add(-1)
}

// More holds a token when there is something to take, if only the end.
func (r *Reader[T]) More() <-chan struct{} { return r.more }

// Take returns what waits for the reader, and whether nothing will come after it.
func (r *Reader[T]) Take() (items []Item[T], closed bool) {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	items, r.queue, r.bytes, r.behind = r.queue, nil, 0, false
	return items, r.hub.closed
}

// All yields items, each with how many were lost just before it, until ctx ends or
// the hub is closed.
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

// Close ends all readers, once they have had what waits for them. It is idempotent.
func (h *Hub[T]) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.readers {
		r.wake()
	}
}
