package cassette

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"time"
)

// ErrFull is the error of a write beyond the bound of a [Writer].
var ErrFull = errors.New("the bound of the recording is reached")

// Writer writes a cassette. Each Write of the writer below is of whole lines.
type Writer struct {
	w       io.Writer
	left    int64 // bytes
	buf     []byte
	records int
}

// keptBuffer is the largest buffer that a writer keeps.
const keptBuffer = 1 << 20

// endRoom is kept free for the end of the recording.
const endRoom = 1 << 10

// NewWriter writes the header. most bounds the whole cassette in bytes; 0 is [MaxSize].
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

// Add adds a record, which is written at the latest by Flush. A frame beyond [MaxLine] becomes
// KindOmitted. After [ErrFull] only Close may follow. The error of a payload that is no JSON is
// that of the payload.
func (c *Writer) Add(r *Record) error {
	before := len(c.buf)
	var err error
	if c.buf, err = Append(c.buf, r); err != nil {
		return err
	}
	if size := len(c.buf) - before - 1; size > MaxLine {
		omitted := Record{At: r.At, Run: r.Run, Kind: KindOmitted, Payload: strconv.AppendInt(nil, int64(size), 10)}
		c.buf, _ = Append(c.buf[:before], &omitted) // a number
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

// Flush writes what has been added.
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

// Close writes the end of the recording, which the bound of the whole does not prevent.
func (c *Writer) Close(at time.Duration, reason string) error {
	c.left += endRoom
	err := c.Add(&Record{At: at, Kind: KindClosed, Payload: Encode(Closed{reason, c.records})})
	return errors.Join(err, c.Flush())
}
