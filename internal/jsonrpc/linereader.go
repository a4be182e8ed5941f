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

// lineReader splits a stream into lines and holds little more than one of them.
type lineReader struct {
	r     io.ReadCloser
	max   int
	small []byte // the buffer for ordinary lines
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

// bigBuffers are four, 16, 64 and 256 times smallBuffer long. A line that does not
// fit moves to the next size; the buffer goes back when it is empty, so that idle
// connections hold none.
var bigBuffers [4]sync.Pool

func (l *lineReader) init(r io.ReadCloser, max int) {
	l.r, l.max = r, max
	l.small = make([]byte, smallBuffer)
	l.buf = l.small
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Time{}) == nil {
		l.deadline = d
	}
}

// line returns the next line without its line ending, if all of it has been read.
// It is valid until the next call of fill.
func (l *lineReader) line() (line []byte, ok bool, err error) {
	i := bytes.IndexByte(l.buf[l.seen:l.end], '\n')
	if i < 0 {
		l.seen = l.end
		if l.end-l.start > l.max {
			err = ErrLineTooLong
		}
		return nil, false, err
	}
	line = l.buf[l.start : l.seen+i]
	l.start = l.seen + i + 1
	l.seen = l.start
	l.lines++
	if len(line) > l.max {
		return nil, false, ErrLineTooLong
	}
	return bytes.TrimSuffix(line, []byte("\r")), true, nil
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
		case err == io.EOF && l.start < l.end:
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
	if l.end == len(l.buf) {
		size := 4 * len(l.buf)
		if size >= l.max {
			size = l.max + 1 // the longest line and its newline
		}
		l.use(bigBuffer(size))
	}
}

func bigBuffer(size int) []byte {
	if b, ok := poolOf(size).Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, size)
}

// use moves what was not yet returned to the front of buf.
func (l *lineReader) use(buf []byte) {
	n := copy(buf, l.buf[l.start:l.end])
	if len(l.buf) != len(buf) && len(l.buf) != len(l.small) {
		old := l.buf
		poolOf(len(old)).Put(&old)
	}
	l.buf, l.seen, l.start, l.end = buf, l.seen-l.start, 0, n
}

// poolOf returns the pool for buffers of this size; an odd size gets an empty
// pool that nobody else sees.
func poolOf(size int) *sync.Pool {
	for i := range bigBuffers {
		if size == smallBuffer<<(2*i+2) {
			return &bigBuffers[i]
		}
	}
	return new(sync.Pool)
}

func (l *lineReader) close() (err error) {
	l.once.Do(func() { err = l.r.Close() })
	return err
}
