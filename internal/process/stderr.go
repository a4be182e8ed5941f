package process

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// StderrOptions bound what a child's stderr may cost. Zero fields mean the default.
type StderrOptions struct {
	MaxLine int     // bytes of a line that are kept, the rest is cut; default 8192
	Rate    float64 // lines per second in the long run; default 100
	Burst   int     // lines at once, and lines that may wait for StderrLine; default 250
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
	// Text is escaped (see [Escape]) and free of the level prefix; JSON and
	// logfmt lines are whole. It is not redacted.
	Text string
	// Truncated says that the line was longer than StderrOptions.MaxLine.
	Truncated bool
	// Dropped counts the lines lost between the one before and this, to the rate
	// limit or to a slow StderrLine.
	Dropped int
}

const (
	readSize  = 512      // of a quiet child
	floodSize = 64 << 10 // of one that says more at once: a whole pipe
	// finalBytes bounds the last read after the child's death; it is the most
	// that a pipe of Linux can hold without privileges.
	finalBytes = 1 << 20
)

// floods are the buffers of those that say much, while they do.
var floods = sync.Pool{New: func() any { return new([floodSize]byte) }}

// stderrReader drains a child's stderr, whatever happens to the lines: a child
// that is blocked in a write to stderr is a hung child. One goroutine reads, and
// one delivers while there is something to; both end soon after the pipe does.
type stderrReader struct {
	file    *os.File
	opts    StderrOptions
	limiter *rate.Limiter
	tail    tail

	queue *delivery // nil: nobody wants the lines
	read  chan struct{}

	// These belong to the reading goroutine.
	line      []byte // the line so far, at most MaxLine bytes
	truncated bool
	dropped   int
	throttled bool // no more line of this chunk will be delivered
}

func readStderr(f *os.File, deliver func(Line), o StderrOptions) *stderrReader {
	o = o.withDefaults()
	r := &stderrReader{file: f, opts: o, limiter: newLimiter(o), read: make(chan struct{})}
	if deliver != nil {
		r.queue = newDelivery(deliver, o.Burst)
	}
	go r.run()
	return r
}

func newLimiter(o StderrOptions) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(o.Rate), o.Burst)
}

// finish ends the reading after the child's death and waits for it. What the
// child wrote is in the pipe by now, so nothing is lost by not waiting for an
// end of file that a surviving grandchild may hold back.
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

// run reads until the pipe ends or finish cuts it short.
func (r *stderrReader) run() {
	defer close(r.read)
	defer r.file.Close()
	var small [readSize]byte
	var flood *[floodSize]byte
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
		case full && flood == nil:
			flood = floods.Get().(*[floodSize]byte)
			buf = flood[:]
		case !full && flood != nil:
			floods.Put(flood)
			buf, flood = small[:], nil
		}
	}
	if flood != nil {
		floods.Put(flood)
	}
	r.end()
}

// readRest reads what is left in the pipe of a dead child.
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

// chunk takes the next bytes of the stream apart. Once the limiter is empty most
// of the chunk is only counted, so that a flood costs little more than its copy
// out of the kernel.
func (r *stderrReader) chunk(b []byte) {
	r.throttled = r.queue == nil
	skipped := false
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			r.grow(b)
			return
		}
		r.grow(b[:i])
		r.endLine()
		b = b[i+1:]
		if r.throttled && !skipped {
			b, skipped = r.skip(b), true
		}
	}
}

// skip drops whole lines of b, but for the last few, which the tail wants. It
// returns the rest.
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

func (r *stderrReader) grow(b []byte) {
	room := r.opts.MaxLine - len(r.line)
	if len(b) > room {
		b, r.truncated = b[:room], true
	}
	r.line = append(r.line, b...)
}

// endLine hands the line on and starts the next one.
func (r *stderrReader) endLine() {
	line := bytes.TrimRight(r.line, "\r")
	truncated := r.truncated
	r.line, r.truncated = r.line[:0], false
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	r.tail.add(line)
	if r.throttled || !r.limiter.Allow() {
		r.throttled = true
		r.dropped++
		return
	}
	r.send(parseLine(line, truncated))
}

// send queues l, or drops it when StderrLine is slower than the child.
func (r *stderrReader) send(l Line) {
	l.Dropped = r.dropped
	if r.queue.offer(l) {
		r.dropped = 0
	} else {
		r.dropped++
	}
}

// end hands on a last line without newline and reports lines lost after the
// last one delivered.
func (r *stderrReader) end() {
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
