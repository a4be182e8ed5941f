package cassette

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrFull is returned when a record would exceed the limit of a [Writer].
var ErrFull = errors.New("the bound of the recording is reached")

// Writer writes a cassette. It passes only whole lines to the underlying writer.
type Writer struct {
	w       io.Writer
	left    int64 // bytes that may still be written
	buf     []byte
	records int
}

// keptBuffer is the size in bytes at which the buffer is flushed. After a flush, a buffer of more than twice that size
// is released.
const keptBuffer = 1 << 20

// endRoom is reserved for the last record, in bytes.
const endRoom = 1 << 10

// NewWriter returns a writer after writing the header. most limits the whole cassette in bytes; 0 means [MaxSize].
func NewWriter(w io.Writer, host string, begun time.Time, most int64) (*Writer, error) {
	if most <= 0 {
		most = MaxSize
	}
	header, err := json.Marshal(Header{Version, host, begun.UTC().Truncate(time.Microsecond)})
	if err != nil {
		return nil, err
	}
	c := &Writer{w: w, left: most - endRoom, buf: append(header, '\n')}
	return c, c.Flush()
}

// Add buffers a record until Flush, or until the buffer is full. A frame over [MaxLine] becomes KindOmitted,
// also in r.
// After [ErrFull] only Close may follow. A payload that is not JSON is an error.
func (c *Writer) Add(r *Record) error {
	before := len(c.buf)
	var err error
	if c.buf, err = Append(c.buf, r); err != nil {
		return err
	}
	if size := len(c.buf) - before - 1; size > MaxLine {
		*r = Record{At: r.At, Run: r.Run, Kind: KindOmitted, Payload: strconv.AppendInt(nil, int64(size), 10)}
		c.buf, _ = Append(c.buf[:before], r) // a number always encodes
	}
	if int64(len(c.buf)) > c.left {
		c.buf = c.buf[:before]
		return ErrFull
	}
	c.records++
	if len(c.buf) >= keptBuffer {
		return c.Flush()
	}
	return nil
}

// Flush writes the buffered records.
func (c *Writer) Flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	n, err := c.w.Write(c.buf)
	c.left -= int64(n)
	if c.buf = c.buf[:0]; cap(c.buf) > 2*keptBuffer {
		c.buf = nil
	}
	return err
}

// Close writes the end of the recording, for which endRoom is reserved.
func (c *Writer) Close(at time.Duration, reason string) error {
	c.left += endRoom
	err := c.Add(&Record{At: at, Kind: KindClosed, Payload: Encode(Closed{reason, c.records})})
	return errors.Join(err, c.Flush())
}
