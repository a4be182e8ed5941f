package process

import (
	"sync"
	"time"

	"github.com/exthost/exthost/internal/text/display"
)

// tailLines is how many stderr lines are kept as evidence of a crash.
const tailLines = 20

// tail is a ring buffer of the last lines. It reuses buffers, so that adding a line rarely allocates.
type tail struct {
	mu   sync.Mutex
	ring []tailLine // at most tailLines
	n    int        // lines added so far
}

// tailLine is a line and the time it was read.
type tailLine struct {
	text []byte
	at   time.Time
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.ring) < tailLines {
		t.ring = append(t.ring, tailLine{})
	}
	slot := &t.ring[t.n%tailLines]
	slot.text, slot.at = append(slot.text[:0], line...), time.Now()
	t.n++
}

// lines returns the kept lines that were read after since.
func (t *tail) lines(since time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i := max(0, t.n-tailLines); i < t.n; i++ {
		if l := t.ring[i%tailLines]; l.at.After(since) {
			lines = append(lines, display.Escape(string(l.text)))
		}
	}
	return lines
}
