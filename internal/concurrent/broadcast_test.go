package concurrent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// read starts a goroutine that reads from h and passes on each item before the next one.
func read(ctx context.Context, h *Broadcast[int], wants func(*int) bool) <-chan BroadcastItem[int] {
	items := make(chan BroadcastItem[int])
	r := h.Join(wants)
	go func() {
		defer close(items)
		defer r.Leave()
		for v, lost := range r.All(ctx) {
			items <- BroadcastItem[int]{v, lost}
		}
	}()
	return items
}

// ready returns the items that a reader has passed on, without waiting for more.
func ready(items <-chan BroadcastItem[int]) (all []BroadcastItem[int]) {
	for {
		synctest.Wait()
		select {
		case i, open := <-items:
			if !open {
				return all
			}
			all = append(all, i)
		default:
			return all
		}
	}
}

func TestBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Broadcast[int]
		h.Publish(0, 0) // no readers
		all, even := read(t.Context(), &h, nil), read(t.Context(), &h, func(n *int) bool { return *n%2 == 0 })
		for i := range 4 {
			h.Publish(i, 1)
		}
		if n := h.Readers(); n != 2 {
			t.Errorf("%d readers", n)
		}
		h.Close()
		h.Close()
		h.Publish(4, 1) // before the readers have taken the queue
		if got := ready(all); len(got) != 5 {
			t.Errorf("all: %v", got)
		}
		if got := ready(even); !slices.Equal(got, []BroadcastItem[int]{{0, 0}, {2, 0}, {4, 0}}) {
			t.Errorf("even: %v", got)
		}
		if n := h.Readers(); n != 0 {
			t.Errorf("%d readers after the end", n)
		}
		if got := ready(read(t.Context(), &h, nil)); got != nil {
			t.Errorf("after the end: %v", got)
		}
	})
}

// A slow reader loses all items after an overflow, in a single gap, even small ones that would fit.
func TestSlowReader(t *testing.T) {
	for name, tt := range map[string]struct {
		sizes []int
		room  int
	}{
		"items":         {[]int{0}, MaxQueuedItems},
		"bytes":         {[]int{MaxQueuedBytes / 64}, 64},
		"big and small": {[]int{MaxQueuedBytes / 64, 1}, 64 + 63},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h Broadcast[int]
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				items := read(ctx, &h, nil)
				h.Publish(0, 0)
				synctest.Wait() // the reader has the first item
				published := 1
				for ; published <= 2*MaxQueuedItems; published++ {
					h.Publish(published, tt.sizes[published%len(tt.sizes)])
				}
				got := ready(items)
				h.Publish(published, 0)
				last := ready(items)
				if len(got) != tt.room+1 || len(last) != 1 || len(got)+last[0].Lost != published {
					t.Errorf("%d came, then %v of %d", len(got), last, published)
				}
				for i, item := range got {
					if item != (BroadcastItem[int]{i, 0}) {
						t.Fatalf("the item at %d is %v", i, item)
					}
				}
			})
		})
	}
}

// A reader that stops does not block Publish, and the end of ctx ends a reader at once.
func TestLeaveBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Broadcast[int]
		ctx, cancel := context.WithCancel(t.Context())
		items := read(ctx, &h, nil)
		h.Publish(1, 0)
		h.Publish(2, 0)
		synctest.Wait()
		cancel()
		if got := ready(items); !slices.Equal(got, []BroadcastItem[int]{{1, 0}}) {
			t.Errorf("%v", got)
		}
		r := h.Join(nil)
		h.Publish(3, 0)
		for v := range r.All(t.Context()) {
			if v != 3 {
				t.Error(v)
			}
			break
		}
		r.Leave()
		if n := h.Readers(); n != 0 {
			t.Errorf("%d readers", n)
		}
	})
}
