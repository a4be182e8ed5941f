package cassette

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Error is the fault of a line.
type Error struct {
	Line  int // from 1 on
	Fault error
}

// Error names the line and the fault.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Fault) }

// Unwrap returns the fault.
func (e *Error) Unwrap() error { return e.Fault }

// Faults of a cassette that are told apart.
var (
	// ErrLong is the fault of a line of more than [MaxLine].
	ErrLong = fmt.Errorf("it is longer than %d MiB", MaxLine>>20)
	// ErrSize is the fault of the line that exceeds the bound of the whole.
	ErrSize = errors.New("the cassette is longer than its reader takes")
	// ErrVersion is the fault of a first line that is of another format or a later version.
	ErrVersion = errors.New("it is no cassette of a version that this program reads")
)

// Reader reads a cassette. After [Reader.Next] has returned io.EOF, Complete says whether the end
// of the recording was read: without it the recording was cut off.
type Reader struct {
	Header   Header
	Complete bool

	r     *bufio.Reader
	line  int
	left  int64 // bytes
	began int64 // where the last line begins, in bytes
	read  int64 // bytes, of all lines
	last  Place // of the last record
}

// Place is where the line of a record is in its file. With it a record can be read again that is too
// large to be kept.
type Place struct {
	offset int64
	length int32
	sum    uint32
}

// ErrChanged is the error of a place at which the file has another line than before.
var ErrChanged = errors.New("the cassette has changed since it was read")

// Place returns the place of the record that Next returned last.
func (c *Reader) Place() Place { return c.last }

// At returns the record at a place of r, the file that the place was read from. The error is
// [ErrChanged], or that of r.
func At(r io.ReaderAt, p Place) (Record, error) {
	text := make([]byte, p.length)
	n, err := r.ReadAt(text, p.offset)
	if n < len(text) && !errors.Is(err, io.EOF) {
		return Record{}, err
	}
	if n < len(text) || crc32.ChecksumIEEE(text) != p.sum {
		return Record{}, ErrChanged
	}
	return parse(text)
}

// NewReader reads the header. most bounds the whole cassette in bytes; 0 is [MaxSize]. The error
// is an [Error], or that of r.
func NewReader(r io.Reader, most int64) (*Reader, error) {
	if most <= 0 {
		most = MaxSize
	}
	c := &Reader{r: bufio.NewReaderSize(r, 64<<10), left: most}
	text, err := c.next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, &Error{1, errors.New("the file is empty")}
	case err != nil:
		return nil, err
	case json.Unmarshal(text, &c.Header) != nil || c.Header.Version < 1 || c.Header.Version > Version:
		return nil, &Error{1, ErrVersion}
	}
	return c, nil
}

// Next returns the next record, which owns its memory; io.EOF after the last one. A last line
// without its end was cut off and is left out. Other errors are an [Error] or that of the file.
func (c *Reader) Next() (Record, error) {
	if c.Complete {
		if _, err := c.next(); !errors.Is(err, io.EOF) {
			return Record{}, &Error{c.line, errors.New("the cassette goes on after its end")}
		}
		return Record{}, io.EOF
	}
	text, err := c.next()
	if err != nil {
		return Record{}, err
	}
	r, err := parse(text)
	if err != nil {
		return Record{}, &Error{c.line, err}
	}
	c.Complete = r.Kind == KindClosed
	c.last = Place{offset: c.began, length: int32(len(text)), sum: crc32.ChecksumIEEE(text)}
	return r, nil
}

// next returns the next line without its end.
func (c *Reader) next() ([]byte, error) {
	var text []byte
	c.began = c.read
	for c.line++; ; {
		part, err := c.r.ReadSlice('\n')
		c.read += int64(len(part))
		if c.left -= int64(len(part)); c.left < 0 {
			return nil, &Error{c.line, ErrSize}
		}
		if len(text)+len(part) > MaxLine+1 {
			return nil, &Error{c.line, ErrLong}
		}
		text = append(text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			return nil, err // of io.EOF: the line was cut off
		default:
			return bytes.TrimSuffix(text[:len(text)-1], []byte("\r")), nil
		}
	}
}
