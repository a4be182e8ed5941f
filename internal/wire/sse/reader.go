package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"
)

// ErrTooLarge is wrapped by the error for an event over the reader's limit.
var ErrTooLarge = errors.New("too large")

// Event is one server-sent event.
type Event struct {
	Name string // "" means "message"
	Data []byte // owns its memory
}

// Reader parses an event stream.
type Reader struct {
	LastID string        // id of the last event that had one
	Retry  time.Duration // pause before a reconnection that the server wants; 0 if unspecified

	r       *bufio.Reader
	max     int  // bytes of one event
	begun   bool // the first line, which may begin with a byte order mark, has been read
	afterCR bool // the latest line ended in CR; a following LF belongs to it
}

// NewReader returns a reader of r with at most limit bytes per event.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 16<<10), max: limit}
}

// Next returns the next event that has data. An event cut off by the end of the stream is dropped. The error is the
// stream's, or wraps [ErrTooLarge].
func (r *Reader) Next() (Event, error) {
	var event Event
	for size := 0; ; {
		line, err := r.line(r.max - size)
		if err != nil {
			return Event{}, err
		}
		size += len(line)
		if len(line) == 0 {
			size = 0
			if event.Data != nil {
				event.Data = bytes.TrimSuffix(event.Data, []byte("\n"))
				return event, nil
			}
			event = Event{}
			continue
		}
		r.field(&event, line)
	}
}

// field applies one line of an event. A line that begins with a colon is a comment.
func (r *Reader) field(event *Event, line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		event.Name = string(value)
	case "data":
		event.Data = append(append(event.Data, value...), '\n')
	case "id":
		if id := string(value); httpguts.ValidHeaderFieldValue(id) { // another cannot be sent as Last-Event-ID
			r.LastID = id
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			r.Retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// line returns the next line without its end (LF, CR or CRLF). It is valid until the next call.
func (r *Reader) line(most int) ([]byte, error) {
	var long []byte // the parts of a line longer than the buffer
	for {
		if _, err := r.r.Peek(1); err != nil {
			return nil, err
		}
		part, _ := r.r.Peek(r.r.Buffered())
		if r.afterCR && part[0] == '\n' {
			_, _ = r.r.Discard(1)
			r.afterCR = false
			continue
		}
		r.afterCR = false
		end := lineEnd(part)
		ended := end < len(part)
		if len(long)+end > most+len("data: ") { // the limit counts values, not field names
			return nil, fmt.Errorf("an event of more than %d bytes: %w", r.max, ErrTooLarge)
		}
		line := part[:end]
		if !ended || long != nil {
			long = append(long, line...)
			line = long
		}
		if ended {
			r.afterCR = part[end] == '\r'
			end++
		}
		_, _ = r.r.Discard(end)
		if ended {
			return r.first(line), nil
		}
	}
}

// lineEnd returns the index of the first CR or LF in b, or len(b).
func lineEnd(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		b = b[:i]
	}
	if i := bytes.IndexByte(b, '\r'); i >= 0 {
		return i
	}
	return len(b)
}

// first removes the byte order mark from the first line.
func (r *Reader) first(line []byte) []byte {
	if !r.begun {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	r.begun = true
	return line
}
