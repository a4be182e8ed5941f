// Package wiretap shows what passes on wires to those who look. While nobody does it
// costs the wire one atomic load a frame.
package wiretap

import (
	"context"
	"iter"
	"time"

	"github.com/exthost/exthost/internal/broadcast"
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
	maxText = 64 << 10 // of one frame
	margin  = 16 << 10 // looked at for secrets beyond that: one must not be cut in two
)

// Hub is where the wires of a host meet those who look. Its methods may be called by
// many goroutines at once.
type Hub struct {
	mask   func(string) string
	frames broadcast.Hub[Frame]
}

// New returns a hub that shows no text that mask has not gone over.
func New(mask func(string) string) *Hub { return &Hub{mask: mask} }

// Wire is one wire of an extension. A nil Wire is looked at by nobody.
type Wire struct {
	hub       *Hub
	extension string
}

// Wire returns a wire of that extension.
func (h *Hub) Wire(extension string) *Wire { return &Wire{h, extension} }

// Tapped reports whether anybody looks: whether a frame is worth making for
// [Wire.Show], which asks for itself.
func (w *Wire) Tapped() bool { return w != nil && w.hub.frames.Readers() > 0 }

// Show shows what the host sent to the process, or it to the host. It waits for
// nobody and keeps nothing of frame.
func (w *Wire) Show(pid int, sent bool, frame []byte) {
	if !w.Tapped() {
		return
	}
	f := Frame{Time: time.Now(), Extension: w.extension, PID: pid, Sent: sent}
	text := w.hub.mask(string(frame[:min(len(frame), maxText+margin)]))
	f.Text = text[:min(len(text), maxText)]
	f.Cut = max(0, len(frame)-maxText)
	w.hub.frames.Publish(f, len(f.Text))
}

// Frames yields what passes on the wires of an extension, "" for all, from now until
// ctx ends or the hub is closed. Who is slow loses frames, and is told how many.
func (h *Hub) Frames(ctx context.Context, extension string) iter.Seq[Frame] {
	return func(yield func(Frame) bool) {
		r := h.frames.Join(func(f *Frame) bool { return extension == "" || extension == f.Extension })
		defer r.Leave()
		for f, lost := range r.All(ctx) {
			if f.Lost = lost; !yield(f) {
				return
			}
		}
	}
}

// Close ends all readers, once they have had what was pending. It is idempotent.
func (h *Hub) Close() { h.frames.Close() }
