package mcphttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// ErrTooLarge is wrapped by the error for an answer or event over MaxBytes.
var ErrTooLarge = errors.New("mcphttp: too large")

// serverEvent is one server-sent event.
type serverEvent struct {
	name string // "" is "message"
	data []byte // owns its memory
}

// eventReader takes a stream of server-sent events apart.
type eventReader struct {
	r   *bufio.Reader
	max int // bytes of one event

	id    string        // of the last event that had one
	retry time.Duration // how long the server wants a client to wait; 0 when it did not say
}

func newEventReader(r io.Reader, limit int) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 16<<10), max: limit}
}

// next returns the next event that holds data. What the stream ends in the middle
// of is no event. The error is that of the stream, or wraps ErrTooLarge.
func (e *eventReader) next() (serverEvent, error) {
	var got serverEvent
	for size := 0; ; {
		line, err := e.line(e.max - size)
		if err != nil {
			return serverEvent{}, err
		}
		size += len(line)
		if len(line) == 0 {
			size = 0
			if got.data != nil {
				got.data = bytes.TrimSuffix(got.data, []byte("\n"))
				return got, nil
			}
			got = serverEvent{}
			continue
		}
		e.field(&got, line)
	}
}

// field takes one line of an event in. A line that begins with a colon is a comment.
func (e *eventReader) field(got *serverEvent, line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		got.name = string(value)
	case "data":
		got.data = append(append(got.data, value...), '\n')
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// line returns the next line without its end; it is valid until the next call.
func (e *eventReader) line(most int) ([]byte, error) {
	line, err := e.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= most {
			line, err = e.r.ReadSlice('\n')
			long = append(long, line...)
		}
		line = long
	}
	if len(line) > most+len("data: \r\n") { // the limit is for what the lines hold
		return nil, fmt.Errorf("an event of more than %d bytes: %w", e.max, ErrTooLarge)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}
