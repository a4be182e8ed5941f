// Package wiretap shows what passes on wires to those who look. While nobody does it
// costs the wire one atomic load a frame.
package wiretap

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// Frame is one message on a wire, or a line that should have been one.
type Frame struct {
	Time      time.Time `json:"time"`
	Extension string    `json:"extension"`
	PID       int       `json:"pid,omitempty"`  // of the process at the other end; 0 when there is none
	Sent      bool      `json:"sent"`           // by the host; false: by the extension
	Text      string    `json:"text"`           // without its newline, secrets masked
	Cut       int       `json:"cut,omitempty"`  // bytes that were left out at its end
	Lost      int       `json:"lost,omitempty"` // frames that this reader was too slow for, just before this one
}

const (
	maxFrames = 1024     // that wait for one reader
	maxBytes  = 4 << 20  // of their texts
	maxText   = 64 << 10 // of one frame
	margin    = 16 << 10 // looked at for secrets beyond that: one must not be cut in two
)

// Hub is where the wires of a host meet those who look. Its methods may be called by
// many goroutines at once.
type Hub struct {
	mask  func(string) string
	count atomic.Int32 // of readers

	mu      sync.Mutex // guards readers and what they hold
	readers map[*reader]struct{}
	closed  bool
}

// New returns a hub that shows no text that mask has not gone over.
func New(mask func(string) string) *Hub { return &Hub{mask: mask, readers: make(map[*reader]struct{})} }

// Wire is one wire of an extension. A nil Wire is looked at by nobody.
type Wire struct {
	hub       *Hub
	extension string
}

// Wire returns a wire of that extension.
func (h *Hub) Wire(extension string) *Wire { return &Wire{h, extension} }

// Tapped reports whether anybody looks: whether [Wire.Show] is worth a call.
func (w *Wire) Tapped() bool { return w != nil && w.hub.count.Load() > 0 }

// Show shows what the host sent to the process, or it to the host. It waits for
// nobody and keeps nothing of frame.
func (w *Wire) Show(pid int, sent bool, frame []byte) {
	if w == nil {
		return
	}
	f := Frame{Time: time.Now(), Extension: w.extension, PID: pid, Sent: sent}
	text := w.hub.mask(string(frame[:min(len(frame), maxText+margin)]))
	f.Text = text[:min(len(text), maxText)]
	f.Cut = max(0, len(frame)-maxText)
	w.hub.show(f)
}

func (h *Hub) show(f Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if r.extension == "" || r.extension == f.Extension {
			r.offer(f)
		}
	}
}

// reader is one who looks.
type reader struct {
	extension string
	pending   []Frame
	bytes     int
	lost      int
	behind    bool          // loses all until what is pending is taken: one gap, not one around each frame that would still fit
	more      chan struct{} // holds a token when something is pending
}

func (r *reader) offer(f Frame) {
	if r.behind = r.behind || len(r.pending) >= maxFrames || r.bytes+len(f.Text) > maxBytes; r.behind {
		r.lost++
		return
	}
	f.Lost, r.lost = r.lost, 0
	r.pending, r.bytes = append(r.pending, f), r.bytes+len(f.Text)
	r.wake()
}

func (r *reader) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Frames yields what passes on the wires of an extension, "" for all, from now until
// ctx ends or the hub is closed. Who is slow loses frames, and is told how many.
func (h *Hub) Frames(ctx context.Context, extension string) iter.Seq[Frame] {
	return func(yield func(Frame) bool) {
		r := &reader{extension: extension, more: make(chan struct{}, 1)}
		if !h.join(r) {
			return
		}
		defer h.leave(r)
		for {
			select {
			case <-r.more:
			case <-ctx.Done():
				return
			}
			frames, closed := h.take(r)
			for _, f := range frames {
				if ctx.Err() != nil || !yield(f) {
					return
				}
			}
			if closed {
				return
			}
		}
	}
}

func (h *Hub) join(r *reader) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.readers[r] = struct{}{}
		h.count.Add(1)
	}
	return !h.closed
}

func (h *Hub) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
	h.count.Add(-1)
}

func (h *Hub) take(r *reader) (frames []Frame, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	frames, r.pending, r.bytes, r.behind = r.pending, nil, 0, false
	return frames, h.closed
}

// Close ends all readers, once they have had what was pending. It is idempotent.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for r := range h.readers {
		r.wake()
	}
}
