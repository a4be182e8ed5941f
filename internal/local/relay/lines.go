package relay

import (
	"bytes"
	"io"
	"runtime"
	"time"
)

const (
	firstBuffer = 16 << 10
	// maxHeld is the longest line that is held until it is complete. A longer one is passed
	// on in pieces.
	maxHeld = 256 << 10
)

// lineReader reads pieces of a stream: any number of complete lines, or a part of a line
// that is longer than maxHeld.
type lineReader struct {
	r    io.Reader
	buf  []byte
	rest int // buf[:rest] is read and not returned
	done int // bytes of the piece returned last, at the beginning of buf
	err  error
	long bool      // the piece returned last ended within a long line
	last time.Time // of yield
	// keepsEnd has next return a last line without its end; else such a line is dropped,
	// unless its beginning was passed on.
	keepsEnd bool
}

func newLineReader(r io.Reader, keepsEnd bool) *lineReader {
	return &lineReader{r: r, buf: make([]byte, firstBuffer), keepsEnd: keepsEnd}
}

// next returns the next piece, which is valid until the next call. The error follows the
// last piece, whose last line may lack its end.
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

// yield has the goroutine scheduled every 5 ms. One that does nothing but block in system
// calls never is, and the Go runtime takes the processor from one that was not for 10 ms: it
// would wake threads during every read. To be scheduled wakes one too, so that is not done
// for every piece.
func (l *lineReader) yield() {
	if now := time.Now(); now.Sub(l.last) > 5*time.Millisecond {
		l.last = now
		runtime.Gosched()
	}
}
