package relay

import (
	"bytes"
	"io"
	"runtime"
	"time"
)

const (
	firstBuffer = 16 << 10
	// maxHeld is the longest line that is held until it is complete, in bytes. Longer lines are passed on in
	// pieces.
	maxHeld = 256 << 10
)

// lineReader reads a stream in pieces: complete lines, or a part of a line over maxHeld.
type lineReader struct {
	r    io.Reader
	buf  []byte
	rest int // buf[:rest] has been read and not returned
	done int // length of the last piece, at the start of buf
	err  error
	long bool      // the last piece ended within a long line
	last time.Time // time of the last yield
	// keepsEnd makes next return a final line without a line break. Otherwise next drops that line, unless the
	// beginning of the line was already returned.
	keepsEnd bool
}

func newLineReader(r io.Reader, keepsEnd bool) *lineReader {
	return &lineReader{r: r, buf: make([]byte, firstBuffer), keepsEnd: keepsEnd}
}

// next returns the next piece, valid until the next call. After the last piece it returns the error of the reader.
// The last line of the last piece may lack its line break.
func (l *lineReader) next() ([]byte, error) {
	l.rest = copy(l.buf, l.buf[l.done:l.rest])
	l.done = 0
	for seen := 0; ; {
		if i := bytes.LastIndexByte(l.buf[seen:l.rest], '\n'); i >= 0 {
			l.done, l.long = seen+i+1, false
			return l.buf[:l.done], nil
		}
		seen = l.rest
		if l.rest == maxHeld || l.err != nil && l.rest > 0 && (l.keepsEnd || l.long) {
			l.done, l.long = l.rest, true
			return l.buf[:l.done], nil
		}
		if l.err != nil {
			return nil, l.err
		}
		if l.rest == len(l.buf) {
			l.buf = append(l.buf, make([]byte, len(l.buf))...)
		}
		l.yield()
		var n int
		n, l.err = l.r.Read(l.buf[l.rest:])
		l.rest += n
	}
}

// yield reschedules the goroutine every 5 ms. The Go runtime takes the processor from a goroutine that only
// blocks in system calls and was not scheduled for 10 ms, and would then wake a thread for every read.
// Rescheduling also wakes a thread, so it is not done for every piece.
func (l *lineReader) yield() {
	if now := time.Now(); now.Sub(l.last) > 5*time.Millisecond {
		l.last = now
		runtime.Gosched()
	}
}
