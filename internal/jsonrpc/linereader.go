package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lineReader splits a stream into lines and holds little more than one of them, or
// two for the moment in which a long one is put together.
type lineReader struct {
	r     io.ReadCloser
	max   int
	small []byte // the buffer for ordinary lines
	parts []part // what came before buf of a line that outgrew the biggest buffer
	long  int    // bytes in parts
	buf   []byte // small or a bigger one; what was read is buf[start:end]
	start int
	end   int
	seen  int  // buf[start:seen] holds no newline
	lines int  // found since the last read
	full  bool // the last read left no room: there was more to be had
	ended bool // the stream ended within a line, which is the next one returned
	total atomic.Uint64
	once  sync.Once

	deadline interface{ SetReadDeadline(time.Time) error } // r when it supports that
}

const smallBuffer = 2 << 10

// bigBuffers are four, 16 and 64 times smallBuffer long. A line that does not fit
// moves to the next size, and beyond the biggest it is read in parts of that; the
// buffers go back when they are empty, so that idle connections hold none.
var bigBuffers [3]sync.Pool

const biggestBuffer = smallBuffer << (2 * len(bigBuffers))

// part is a piece of a long line, and the buffer that it is in.
type part struct{ buf, text []byte }

func (l *lineReader) init(r io.ReadCloser, max int) {
	l.r, l.max = r, max
	l.small = make([]byte, smallBuffer)
	l.buf = l.small
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Time{}) == nil {
		l.deadline = d
	}
}

// line returns the next line without its line ending, if all of it has been read.
// It is the caller's own, or, if shared, valid until the next call of fill.
func (l *lineReader) line() (line []byte, shared, ok bool, err error) {
	i := bytes.IndexByte(l.buf[l.seen:l.end], '\n')
	if i < 0 {
		l.seen = l.end
		if l.long+l.end-l.start > l.max {
			err = ErrLineTooLong
		}
		return nil, false, false, err
	}
	line = l.buf[l.start : l.seen+i]
	l.start = l.seen + i + 1
	l.seen = l.start
	l.lines++
	if l.long+len(line) > l.max {
		return nil, false, false, ErrLineTooLong
	}
	shared = len(l.parts) == 0
	if !shared {
		line = l.join(line)
	}
	return bytes.TrimSuffix(line, []byte("\r")), shared, true, nil
}

// join puts a long line together. It copies in pieces on purpose: a copy cannot be
// preempted, and one of megabytes would keep all of the program waiting when the
// garbage collector is about to begin.
func (l *lineReader) join(last []byte) []byte {
	whole := make([]byte, 0, l.long+len(last))
	for _, p := range l.parts {
		whole = append(whole, p.text...)
		release(p.buf)
	}
	l.parts, l.long = nil, 0
	return append(whole, last...)
}

// fill reads once. A last line without a newline is given one.
func (l *lineReader) fill() error {
	l.makeRoom()
	l.lines = 0
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.full = l.end == len(l.buf)
		l.total.Add(uint64(n))
		switch {
		case n > 0:
			return nil
		case err == io.EOF && l.long+l.end-l.start > 0:
			l.ended = true
			l.buf = append(l.buf[:l.end], '\n')
			l.end++
			return nil
		case l.deadline != nil && errors.Is(err, os.ErrDeadlineExceeded):
			_ = l.deadline.SetReadDeadline(time.Time{}) // or the next read says what is wrong
			return errInterrupted
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom makes sure that something can be read behind what is there.
func (l *lineReader) makeRoom() {
	switch {
	case l.start == l.end:
		l.use(l.small)
		if l.full { // who has much to say is read in bigger pieces
			l.use(bigBuffer(16 * smallBuffer))
		}
	case l.start > 0 && len(l.buf)-l.end < len(l.buf)/2:
		l.use(l.buf)
	}
	switch {
	case l.end < len(l.buf):
	case len(l.buf) == biggestBuffer:
		l.parts = append(l.parts, part{l.buf, l.buf[l.start:l.end]})
		l.long += l.end - l.start
		l.buf, l.start, l.seen, l.end = bigBuffer(biggestBuffer), 0, 0, 0
	default:
		l.use(bigBuffer(4 * len(l.buf)))
	}
}

// drop lets go of the line that will not be read to its end: the reader may be around
// for long after that.
func (l *lineReader) drop() {
	for _, p := range l.parts {
		release(p.buf)
	}
	l.parts, l.long = nil, 0
	l.start, l.seen, l.end = 0, 0, 0
	l.use(l.small)
}

func bigBuffer(size int) []byte {
	if b, ok := poolOf(size).Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, size)
}

// release gives a buffer back, unless it is a small one.
func release(buf []byte) {
	if pool := poolOf(len(buf)); pool != nil {
		pool.Put(&buf)
	}
}

// poolOf returns the pool for big buffers of this size.
func poolOf(size int) *sync.Pool {
	for i := range bigBuffers {
		if size == smallBuffer<<(2*i+2) {
			return &bigBuffers[i]
		}
	}
	return nil
}

// use moves what was not yet returned to the front of buf.
func (l *lineReader) use(buf []byte) {
	n := copy(buf, l.buf[l.start:l.end])
	if &l.buf[0] != &buf[0] {
		release(l.buf)
	}
	l.buf, l.seen, l.start, l.end = buf, l.seen-l.start, 0, n
}

func (l *lineReader) close() (err error) {
	l.once.Do(func() { err = l.r.Close() })
	return err
}
