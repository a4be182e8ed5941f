package process

import "sync"

// delivery hands lines on, in order, on a goroutine that is there only while a
// line is. Most children say little, and an empty queue costs nothing.
type delivery struct {
	to  func(Line)
	max int // lines that may wait

	mu     sync.Mutex
	lines  []Line
	busy   bool // the goroutine is there
	closed bool
	done   chan struct{} // closed when closed and nothing is left to hand on
}

func newDelivery(to func(Line), max int) *delivery {
	return &delivery{to: to, max: max, done: make(chan struct{})}
}

// offer queues l, unless too many are waiting already. It does not wait.
func (d *delivery) offer(l Line) bool {
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

// close says that no more lines come; done tells when all have been handed on.
func (d *delivery) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed = true; !d.busy {
		close(d.done)
	}
}

func (d *delivery) run() {
	for {
		l, ok := d.next()
		if !ok {
			return
		}
		d.to(l)
	}
}

// next takes the oldest line; without one the goroutine ends.
func (d *delivery) next() (l Line, ok bool) {
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
