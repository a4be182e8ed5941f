// Package wiretap copies the frames between host and extensions to readers, for debugging. Without readers it costs one
// atomic load per frame.
package wiretap

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/exthost/exthost/internal/concurrent"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

const (
	maxText = 64 << 10 // bytes of one frame
	margin  = 16 << 10 // bytes after maxText that are searched for secrets too, so that none is cut in two
)

// Hub delivers the frames of all extensions to readers. Its methods are safe for concurrent use.
type Hub struct {
	mask   func(string) string
	frames concurrent.Broadcast[status.Frame]
}

// New returns a hub that applies mask to every text.
func New(mask func(string) string) *Hub { return &Hub{mask: mask} }

// Wire publishes the frames of one extension. A nil Wire drops them.
type Wire struct {
	hub       *Hub
	extension string
}

// Wire returns a wire for an extension.
func (h *Hub) Wire(extension string) *Wire { return &Wire{h, extension} }

// Tapped reports whether there are readers, so that callers need not build a frame if there are none. [Wire.Show]
// checks it too.
func (w *Wire) Tapped() bool { return w != nil && w.hub.frames.Readers() > 0 }

// Show publishes a frame that was sent to the process pid, or by it. It does not wait, and does not retain frame.
func (w *Wire) Show(pid int, sent bool, frame []byte) {
	if !w.Tapped() {
		return
	}
	f := status.Frame{Time: time.Now(), Extension: w.extension, PID: pid, Sent: sent}
	frame = withoutHeaders(frame)
	text := w.hub.mask(string(frame[:min(len(frame), maxText+margin)]))
	f.Text = text[:min(len(text), maxText)]
	f.Cut = max(0, len(frame)-maxText)
	w.hub.frames.Publish(f, len(f.Text))
}

// withoutHeaders masks the headers that a policy of category authentication gets to authenticate a caller.
func withoutHeaders(frame []byte) []byte {
	if !bytes.Contains(frame, []byte(protocol.MethodDecide)) {
		return frame
	}
	params := rawjson.Get(frame, "params")
	masked := make(map[string]json.RawMessage)
	for name := range rawjson.Members(rawjson.Get(params, "headers")) {
		masked[name] = json.RawMessage(`"***"`)
	}
	if len(masked) == 0 {
		return frame
	}
	headers, _ := json.Marshal(masked) // cannot fail: the values are valid JSON
	return rawjson.Set(frame, "params", rawjson.Set(params, "headers", headers))
}

// Frames yields the frames of an extension, or of all if it is "", from now until ctx ends or the hub is closed. A slow
// reader loses frames and gets their number in Frame.Lost.
func (h *Hub) Frames(ctx context.Context, extension string) iter.Seq[status.Frame] {
	return func(yield func(status.Frame) bool) {
		r := h.frames.Join(func(f *status.Frame) bool { return extension == "" || extension == f.Extension })
		defer r.Leave()
		for f, lost := range r.All(ctx) {
			if f.Lost = lost; !yield(f) {
				return
			}
		}
	}
}

// Close ends all readers after their queued frames. It is idempotent.
func (h *Hub) Close() { h.frames.Close() }
