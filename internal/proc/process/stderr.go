package process

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/exthost/exthost/internal/text/display"
)

// StderrOptions limit the cost of a child's stderr. Zero means the default.
type StderrOptions struct {
	MaxLine int     // max bytes of a line, the rest is cut; default 8192
	Rate    float64 // lines per second on average; default 100
	Burst   int     // max lines at once, and max lines queued for StderrLine; default 250
}

func (o StderrOptions) withDefaults() StderrOptions {
	if o.MaxLine <= 0 {
		o.MaxLine = 8 << 10
	}
	if o.Rate <= 0 {
		o.Rate = 100
	}
	if o.Burst <= 0 {
		o.Burst = 250
	}
	return o
}

// Line is one line of a child's stderr.
type Line struct {
	Level slog.Level
	// Text is the line without a level prefix, escaped by [display.Escape] and not redacted. JSON and logfmt lines are
	// complete.
	Text string
	// Truncated is set if the line was longer than StderrOptions.MaxLine. Text then ends after a whole word, with an
	// ellipsis.
	Truncated bool
	// Dropped is the number of lines lost just before this one, due to the rate limit or a slow StderrLine.
	Dropped int
}

const (
	readSize    = 512      // of one read; small, because most children write little
	bigReadSize = 64 << 10 // of a read after one that filled its buffer: a whole pipe
	// finalBytes bounds the reads after the child's exit: the largest pipe that Linux allows without privileges.
	finalBytes = 1 << 20
)

// bigBuffers are for children that write much.
var bigBuffers = sync.Pool{New: func() any { return new([bigReadSize]byte) }}

// stderrReader reads a child's stderr even if the lines are dropped, because a child that blocks on
// stderr hangs. One goroutine reads, another delivers while lines wait. Both end soon after the
// pipe ends.
type stderrReader struct {
	file    *os.File
	opts    StderrOptions
	limiter *rate.Limiter
	tail    tail

	queue *lineQueue // nil without StderrLine
	read  chan struct{}

	// Used by the reading goroutine only:
	line      []byte // the line so far, at most MaxLine bytes
	truncated bool
	dropped   int
	throttled bool // no more lines of this chunk are delivered
}

func readStderr(f *os.File, deliver func(Line), o StderrOptions) *stderrReader {
	o = o.withDefaults()
	r := &stderrReader{file: f, opts: o, limiter: newLimiter(o), read: make(chan struct{})}
	if deliver != nil {
		r.queue = newLineQueue(deliver, o.Burst)
	}
	go r.run()
	return r
}

func newLimiter(o StderrOptions) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(o.Rate), o.Burst)
}

// finish ends the reading after the child's exit and waits for the last lines. All output of the child is in the pipe
// by now, so it does not wait for the end of file: a surviving grandchild may hold the pipe open.
func (r *stderrReader) finish() {
	timeout := time.After(drainWait)
	if r.file.SetReadDeadline(time.Now()) == nil {
		<-r.read
	}
	select {
	case <-r.read:
	case <-timeout:
		return
	}
	if r.queue != nil {
		select {
		case <-r.queue.done:
		case <-timeout:
		}
	}
}

// run reads until the pipe ends or finish is called.
func (r *stderrReader) run() {
	defer close(r.read)
	defer r.file.Close()
	var small [readSize]byte
	var big *[bigReadSize]byte
	for buf := small[:]; ; {
		n, err := r.file.Read(buf)
		r.chunk(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			r.readRest(buf)
			break
		}
		if err != nil {
			break
		}
		switch full := n == len(buf); {
		case full && big == nil:
			big = bigBuffers.Get().(*[bigReadSize]byte)
			buf = big[:]
		case !full && big != nil:
			bigBuffers.Put(big)
			buf, big = small[:], nil
		}
	}
	if big != nil {
		bigBuffers.Put(big)
	}
	r.finishLines()
}

// readRest empties the pipe of a dead child.
func (r *stderrReader) readRest(buf []byte) {
	if r.file.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for total := 0; total < finalBytes; {
		n, err := readNow(r.file, buf)
		if n == 0 || err != nil {
			return
		}
		r.chunk(buf[:n])
		total += n
	}
}

// chunk splits the next bytes into lines. Once the rate limit is reached it only counts most lines, so that a flood
// costs little more than the read itself.
func (r *stderrReader) chunk(b []byte) {
	r.throttled = r.queue == nil
	skipped := false
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			r.appendToLine(b)
			return
		}
		r.appendToLine(b[:i])
		r.endLine()
		b = b[i+1:]
		if r.throttled && !skipped {
			b, skipped = r.skip(b), true
		}
	}
}

// skip counts the lines of b as dropped and returns the last few, which the tail needs.
func (r *stderrReader) skip(b []byte) []byte {
	keep := len(b)
	for range tailLines + 1 {
		i := bytes.LastIndexByte(b[:keep], '\n')
		if i < 0 {
			return b
		}
		keep = i
	}
	r.dropped += bytes.Count(b[:keep+1], []byte{'\n'})
	return b[keep+1:]
}

func (r *stderrReader) appendToLine(b []byte) {
	room := r.opts.MaxLine - len(r.line)
	if len(b) > room {
		b, r.truncated = b[:room], true
	}
	r.line = append(r.line, b...)
}

// endLine delivers the current line and starts the next one.
func (r *stderrReader) endLine() {
	line := bytes.TrimRight(r.line, "\r")
	truncated := r.truncated
	r.line, r.truncated = r.line[:0], false
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if truncated {
		line = []byte(display.Words(string(line)))
	}
	r.tail.add(line)
	if r.throttled || !r.limiter.Allow() {
		r.throttled = true
		r.dropped++
		return
	}
	r.send(parseLine(line, truncated))
}

// send queues l, or drops it if the queue is full.
func (r *stderrReader) send(l Line) {
	l.Dropped = r.dropped
	if r.queue.push(l) {
		r.dropped = 0
	} else {
		r.dropped++
	}
}

// finishLines delivers a last line without newline, and reports lines dropped after the last delivered one.
func (r *stderrReader) finishLines() {
	r.throttled = r.queue == nil
	r.endLine()
	if r.queue == nil {
		return
	}
	if r.dropped > 0 {
		r.send(Line{Level: slog.LevelWarn, Text: "stderr lines dropped"})
	}
	r.queue.close()
}

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
