package process

import "sync"

// lineQueue delivers lines in order. Its goroutine exists only while lines wait, so that a quiet child costs nothing.
type lineQueue struct {
	deliver func(Line)
	max     int // capacity

	mu     sync.Mutex
	lines  []Line
	busy   bool // the goroutine runs
	closed bool
	done   chan struct{} // closed once all lines are delivered after close
}

func newLineQueue(to func(Line), max int) *lineQueue {
	return &lineQueue{deliver: to, max: max, done: make(chan struct{})}
}

// push queues l and reports whether there was room. It does not block.
func (d *lineQueue) push(l Line) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) >= d.max {
		return false
	}
	d.lines = append(d.lines, l)
	if !d.busy {
		d.busy = true
		go d.run()
	}
	return true
}

// close ends the input; done is closed once all lines are delivered.
func (d *lineQueue) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed = true; !d.busy {
		close(d.done)
	}
}

func (d *lineQueue) run() {
	for {
		l, ok := d.next()
		if !ok {
			return
		}
		d.deliver(l)
	}
}

// next returns the oldest line. If there is none, it marks the goroutine as ended.
func (d *lineQueue) next() (l Line, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lines) > 0 {
		l, d.lines = d.lines[0], d.lines[1:]
		return l, true
	}
	d.lines, d.busy = nil, false
	if d.closed {
		close(d.done)
	}
	return l, false
}
