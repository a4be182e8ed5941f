package ndjson

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

// reader splits a stream into lines. It holds little more than one line, or twice that while it joins the parts of a
// long line.
type reader struct {
	r         io.ReadCloser
	max       int
	small     []byte // the buffer for short lines
	parts     []part // the beginning of a line longer than the biggest buffer
	partBytes int    // bytes in parts
	buf       []byte // small or a bigger buffer; unread data is buf[start:end]
	start     int
	end       int
	scanned   int  // buf[start:scanned] holds no newline
	lineBytes int  // bytes of the latest line including its ending
	arrived   int  // newlines in the last read
	filled    bool // the last read filled buf, so more input may be ready
	ended     bool // the stream ended within a line, which line returns next
	total     atomic.Uint64
	partial   partial
	once      sync.Once

	deadline interface{ SetReadDeadline(time.Time) error } // r, if it supports that
}

// partial is the incomplete line that the reader waits with. It is written before each wait for the rest of a line.
type partial struct {
	mu    sync.Mutex
	begin []byte // its first bytes, at most maxPartial
	bytes int    // its length
	total uint64 // reader.total at that time; the line has grown or ended if that has changed
}

const maxPartial = 256

var newline = []byte("\n")

const smallBuffer = 2 << 10

// bigBuffers are pools of buffers of 4, 16 and 64 times smallBuffer. A line that does not fit moves to the next size;
// a line longer than the biggest buffer is read in parts. Empty buffers return to the pool, so that idle connections
// hold none.
var bigBuffers [3]sync.Pool

const biggestBuffer = smallBuffer << (2 * len(bigBuffers))

// part is a part of a long line with its buffer.
type part struct{ buf, text []byte }

func (l *reader) init(r io.ReadCloser, max int) {
	l.r, l.max = r, max
	l.small = make([]byte, smallBuffer)
	l.buf = l.small
	if d, ok := r.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Time{}) == nil {
		l.deadline = d
	}
}

// line returns the next line without its ending; ok is false if the line is not complete yet. The caller owns the
// line, except that a shared line is valid only until the next fill.
func (l *reader) line() (line []byte, shared, ok bool, err error) {
	i := bytes.IndexByte(l.buf[l.scanned:l.end], '\n')
	if i < 0 {
		l.scanned = l.end
		if l.partBytes+l.end-l.start > l.max {
			err = ErrLineTooLong
		}
		return nil, false, false, err
	}
	line = l.buf[l.start : l.scanned+i]
	l.start = l.scanned + i + 1
	l.scanned = l.start
	l.lineBytes = l.partBytes + len(line) + 1
	if l.lineBytes > l.max+1 {
		return nil, false, false, ErrLineTooLong
	}
	shared = len(l.parts) == 0
	if !shared {
		line = l.join(line)
	}
	return bytes.TrimSuffix(line, []byte("\r")), shared, true, nil
}

// longLines are pools of long lines that were freed, by the bits of their capacity; lines of 16 MiB and more are not
// kept. New memory for each line of megabytes would cost the faults of its pages, and a garbage collection every few
// lines, which delay all connections.
var longLines [25]sync.Pool

// freeing returns the Free of a joined line. A closure in the reading loop would move the header of each line to the
// heap.
func freeing(line []byte) func() {
	return func() {
		if size := bits.Len(uint(cap(line))); size < len(longLines) {
			longLines[size].Put(&line)
		}
	}
}

// lineOf returns an empty line with room for n bytes, and less than for twice as many, because the bounds of the
// messages in memory count lengths. It returns nil if there is none.
func lineOf(n int) []byte {
	size := bits.Len(uint(n))
	if size >= len(longLines) {
		return nil
	}
	freed, ok := longLines[size].Get().(*[]byte)
	if !ok || cap(*freed) < n {
		return nil
	}
	return (*freed)[:0]
}

// join joins the parts of a long line. It copies part by part on purpose: a copy cannot be preempted, and one of
// megabytes would block the whole program when a garbage collection is about to start.
func (l *reader) join(last []byte) []byte {
	texts := make([][]byte, 0, len(l.parts)+1)
	for _, p := range l.parts {
		texts = append(texts, p.text)
	}
	texts = append(texts, last)
	defer l.releaseParts()
	whole := lineOf(l.partBytes + len(last))
	if whole == nil {
		return bytes.Join(texts, nil)
	}
	for _, text := range texts {
		whole = append(whole, text...)
	}
	return whole
}

func (l *reader) releaseParts() {
	for _, p := range l.parts {
		releaseBuffer(p.buf)
	}
	l.parts, l.partBytes = nil, 0
}

// fill reads once. It adds a missing newline to the last line.
func (l *reader) fill() error {
	l.makeRoom()
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.filled = l.end == len(l.buf)
		l.total.Add(uint64(n))
		l.arrived = bytes.Count(l.buf[l.end-n:l.end], newline)
		switch {
		case n > 0:
			return nil
		case err == io.EOF && l.partBytes+l.end-l.start > 0:
			l.ended = true
			l.buf = append(l.buf[:l.end], '\n')
			l.end++
			return nil
		case l.deadline != nil && errors.Is(err, os.ErrDeadlineExceeded):
			_ = l.deadline.SetReadDeadline(time.Time{}) // if this fails, the next read fails too
			return jsonrpc.ErrInterrupted
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// lineBegin returns the incomplete line, or the first part of a long one.
func (l *reader) lineBegin() []byte {
	if len(l.parts) > 0 {
		return l.parts[0].text
	}
	return l.buf[l.start:l.end]
}

// keepPartial keeps the incomplete line, if there is one, for waiting.
func (l *reader) keepPartial() {
	begin := l.lineBegin()
	if len(begin) == 0 {
		return
	}
	p := &l.partial
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin = append(p.begin[:0], begin[:min(len(begin), maxPartial)]...)
	p.bytes, p.total = l.partBytes+l.end-l.start, l.total.Load()
}

// waiting returns the beginning and the length of the incomplete line that the reader waits with, 0 if there is none.
// Any goroutine may call it.
func (l *reader) waiting() (begin []byte, bytes int) {
	p := &l.partial
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total != l.total.Load() {
		return nil, 0
	}
	return slices.Clone(p.begin), p.bytes
}

// inObject reports whether the incomplete line begins like an object.
func (l *reader) inObject() bool {
	begin := l.lineBegin()
	i := rawjson.SkipSpace(begin, 0)
	return i < len(begin) && begin[i] == '{'
}

func (l *reader) makeRoom() {
	switch {
	case l.start == l.end:
		l.moveTo(l.small)
		if l.filled { // read a busy peer in bigger pieces
			l.moveTo(bigBuffer(16 * smallBuffer))
		}
	case l.start > 0 && len(l.buf)-l.end < len(l.buf)/2:
		l.moveTo(l.buf)
	}
	switch {
	case l.end < len(l.buf):
	case len(l.buf) == biggestBuffer:
		l.parts = append(l.parts, part{l.buf, l.buf[l.start:l.end]})
		l.partBytes += l.end - l.start
		l.buf, l.start, l.scanned, l.end = bigBuffer(biggestBuffer), 0, 0, 0
	default:
		l.moveTo(bigBuffer(4 * len(l.buf)))
	}
}

// discard frees the buffers of a line that is never completed; the reader itself may live on for long.
func (l *reader) discard() {
	l.releaseParts()
	l.start, l.scanned, l.end = 0, 0, 0
	l.moveTo(l.small)
}

func bigBuffer(size int) []byte {
	if b, ok := bufferPool(size).Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, size)
}

// releaseBuffer returns a buffer to its pool, unless it is a small one.
func releaseBuffer(buf []byte) {
	if pool := bufferPool(len(buf)); pool != nil {
		pool.Put(&buf)
	}
}

// bufferPool returns the pool of buffers of this size, or nil.
func bufferPool(size int) *sync.Pool {
	for i := range bigBuffers {
		if size == smallBuffer<<(2*i+2) {
			return &bigBuffers[i]
		}
	}
	return nil
}

// moveTo moves the unread data to the front of buf, which becomes the read buffer.
func (l *reader) moveTo(buf []byte) {
	n := copy(buf, l.buf[l.start:l.end])
	if &l.buf[0] != &buf[0] {
		releaseBuffer(l.buf)
	}
	l.buf, l.scanned, l.start, l.end = buf, l.scanned-l.start, 0, n
}

func (l *reader) close() (err error) {
	l.once.Do(func() { err = l.r.Close() })
	return err
}
