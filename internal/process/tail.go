package process

import "sync"

// tailLines is the number of stderr lines kept as evidence of a crash.
const tailLines = 20

// tail is a ring buffer of the last lines. It reuses its buffers, so that adding a line
// usually allocates nothing.
type tail struct {
	mu   sync.Mutex
	ring [tailLines][]byte
	n    int // lines added so far
}

func (t *tail) add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.ring[t.n%tailLines]
	*slot = append((*slot)[:0], line...)
	t.n++
}

func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for i := max(0, t.n-tailLines); i < t.n; i++ {
		lines = append(lines, Escape(string(t.ring[i%tailLines])))
	}
	return lines
}
