package process

import (
	"sync"
	"time"
)

// tailLines is the number of stderr lines kept as evidence of a crash.
const tailLines = 20

// tail is a ring buffer of the last lines. It reuses its buffers, so that adding a line
// usually allocates nothing.
type tail struct {
	mu   sync.Mutex
	ring [tailLines][]byte
	at   [tailLines]time.Time // when each line was read
	n    int                  // lines added so far
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.ring[t.n%tailLines]
	*slot = append((*slot)[:0], line...)
	t.at[t.n%tailLines] = time.Now()
	t.n++
}

// lines returns the kept lines that were read after since.
func (t *tail) lines(since time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i := max(0, t.n-tailLines); i < t.n; i++ {
		if t.at[i%tailLines].After(since) {
			lines = append(lines, Escape(string(t.ring[i%tailLines])))
		}
	}
	return lines
}
