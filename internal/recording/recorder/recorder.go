// Package recorder records the frames between host and extensions into cassettes, with secrets masked. It loses no
// frame, and delays a call only while its queue is full. Without a recording it costs one atomic load per frame.
package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/exthost/exthost/internal/recording/cassette"
	"github.com/exthost/exthost/internal/text/redact"
)

// maxRecordings limits concurrent recordings.
const maxRecordings = 8

// Hub passes frames to the recordings. It is safe for concurrent use. A nil Hub returns nil wires.
type Hub struct {
	host    string // host version
	secrets *redact.Redactor

	active atomic.Pointer[[]*Recording] // nil while nothing is recorded

	mu      sync.Mutex // guards wires and closing, and writes to active
	wires   map[*Wire]bool
	closing bool
}

// New returns a hub that masks the secrets known to secrets, and texts that have the form of a secret.
func New(host string, secrets *redact.Redactor) *Hub {
	return &Hub{host: host, secrets: secrets, wires: make(map[*Wire]bool)}
}

// Wire carries the frames between the host and one run of an extension. A nil Wire drops them.
type Wire struct {
	hub       *Hub
	extension string

	start json.RawMessage                    // guarded by hub.mu
	offer func() *cassette.Offer             // guarded by hub.mu; nil before the handshake
	runs  atomic.Pointer[map[*Recording]int] // number of this run in each recording
}

func (h *Hub) Wire(extension string) *Wire {
	if h == nil {
		return nil
	}
	return &Wire{hub: h, extension: extension}
}

// Start records the start of the run.
func (w *Wire) Start(s cassette.Start) {
	if w == nil {
		return
	}
	s.Extension = w.extension
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	w.start = cassette.Encode(s)
	h.wires[w] = true
	for _, r := range h.recordings() {
		w.join(r)
	}
}

// Offer records the descriptors of the extension, after its handshake and after each change. offer is called only
// when a recording needs it.
func (w *Wire) Offer(offer func() *cassette.Offer) {
	if w == nil {
		return
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.offer = offer
	if runs := w.runs.Load(); runs != nil && w.On() {
		for r, run := range *runs {
			r.tell(run, cassette.KindOffer, offer().Encode())
		}
	}
}

// End records the end of the run.
func (w *Wire) End(e cassette.End) {
	if w == nil {
		return
	}
	w.hub.mu.Lock()
	delete(w.hub.wires, w) // before the end is recorded: a recording that begins after it must not have the run
	runs := w.runs.Swap(nil)
	w.hub.mu.Unlock()
	put(runs, cassette.KindEnd, nil, cassette.Encode(e))
}

// On reports whether any recording is under way, so that callers can skip building a frame.
func (w *Wire) On() bool { return w != nil && w.hub.active.Load() != nil }

// Frame records a frame of the host (sent) or of the extension. of is the id of the request on whose stream it
// arrived, or nil. The caller must not change frame afterwards. Frame blocks while a recording's queue is full.
func (w *Wire) Frame(sent bool, of json.RawMessage, frame []byte) {
	if !w.On() {
		return
	}
	kind := cassette.KindReceived
	if sent {
		kind = cassette.KindSent
	}
	put(w.runs.Load(), kind, of, frame)
}

// Noise records a line of the extension that is not a frame. It does not retain line.
func (w *Wire) Noise(line []byte) {
	if w.On() {
		text, _ := json.Marshal(string(line)) // a string always encodes
		put(w.runs.Load(), cassette.KindNoise, nil, text)
	}
}

// put passes a payload to every recording that includes the run.
func put(runs *map[*Recording]int, kind cassette.Kind, of, payload json.RawMessage) {
	if runs == nil {
		return
	}
	for r, run := range *runs {
		r.put(run, kind, of, payload)
	}
}

// join adds the run to a recording, unless its options exclude the extension. The caller holds hub.mu.
func (w *Wire) join(r *Recording) {
	if len(r.o.Extensions) > 0 && !slices.Contains(r.o.Extensions, w.extension) {
		return
	}
	runs := make(map[*Recording]int)
	if old := w.runs.Load(); old != nil {
		for other, run := range *old {
			if !other.hasEnded() {
				runs[other] = run
			}
		}
	}
	r.lastRun++
	runs[r] = r.lastRun
	r.tell(r.lastRun, cassette.KindStart, w.start)
	if w.offer != nil {
		r.tell(r.lastRun, cassette.KindOffer, w.offer().Encode())
	}
	w.runs.Store(&runs)
}

// recordings returns the recordings under way.
func (h *Hub) recordings() []*Recording {
	if list := h.active.Load(); list != nil {
		return *list
	}
	return nil
}

// ErrSmall is returned for a MaxBytes that cannot hold the header and the end.
var ErrSmall = fmt.Errorf("max_bytes is less than %d, which the first and the last line of a cassette take",
	cassette.MinSize)

// ErrClosed is returned by [Hub.Record] while the host closes.
var ErrClosed = errors.New("the host closes")

// Record starts a recording. The caller must call [Recording.End].
func (h *Hub) Record(o Options) (*Recording, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch list := h.recordings(); {
	case h.closing:
		return nil, ErrClosed
	case o.MaxBytes != 0 && o.MaxBytes < cassette.MinSize:
		return nil, ErrSmall
	case len(list) >= maxRecordings:
		return nil, fmt.Errorf("%d recordings are under way, which is the most", len(list))
	}
	r := newRecording(h, o)
	for w := range h.wires {
		w.join(r)
	}
	list := append(slices.Clone(h.recordings()), r)
	h.active.Store(&list)
	go r.write() // last: readers take the first write as the sign that frames are recorded
	return r, nil
}

// Stop ends the recording with this id and reports whether it was found.
func (h *Hub) Stop(id string) bool {
	h.mu.Lock()
	list := h.recordings()
	h.mu.Unlock()
	i := slices.IndexFunc(list, func(r *Recording) bool { return r.o.ID == id && id != "" })
	if i < 0 {
		return false
	}
	list[i].end("it was ended", nil)
	return true
}

// Describe returns the recordings under way, oldest first.
func (h *Hub) Describe() (list []Description) {
	h.mu.Lock()
	under := h.recordings()
	h.mu.Unlock()
	for _, r := range under {
		list = append(list, r.describe())
	}
	return list
}

// remove removes a recording that has ended.
func (h *Hub) remove(r *Recording) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(h.recordings()), func(other *Recording) bool { return other == r })
	if len(list) == 0 {
		h.active.Store(nil)
		return
	}
	h.active.Store(&list)
}

// Close ends all recordings. Record fails afterwards.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closing = true
	list := h.recordings()
	h.mu.Unlock()
	for _, r := range list {
		r.End("the host ended")
	}
}
