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

// Error is an error in one line of a cassette.
type Error struct {
	Line  int // counted from 1
	Fault error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Fault) }

func (e *Error) Unwrap() error { return e.Fault }

// Faults in an [Error].
var (
	// ErrLong: the line is longer than [MaxLine].
	ErrLong = fmt.Errorf("it is longer than %d MiB", MaxLine>>20)
	// ErrSize: the cassette exceeds the reader's limit.
	ErrSize = errors.New("the cassette is longer than its reader takes")
	// ErrVersion: the first line is not a cassette header, or a later version wrote it.
	ErrVersion = errors.New("it is no cassette of a version that this program reads")
)

// Reader reads a cassette. Complete is valid once [Reader.Next] has returned io.EOF; it is false if the recording
// was cut off.
type Reader struct {
	Header   Header
	Complete bool

	r     *bufio.Reader
	line  int
	left  int64 // bytes that may still be read
	began int64 // offset of the current line
	read  int64 // bytes read so far
	last  Place // place of the last record
}

// Place is the position of a record's line in its file. With it, [At] can read a record that was not kept in memory.
type Place struct {
	offset int64
	length int32
	sum    uint32
}

// ErrChanged is returned by [At] when the file no longer holds the line that was read.
var ErrChanged = errors.New("the cassette has changed since it was read")

// Place returns the place of the record last returned by Next.
func (c *Reader) Place() Place { return c.last }

// At reads the record at p from r, the file that p is a place in. It returns [ErrChanged] or an error of r.
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

// NewReader reads the header. most limits the whole cassette in bytes; 0 means [MaxSize]. The error is an [Error]
// or an error of r.
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

// Next returns the next record, which owns its memory, or io.EOF after the last one. A last line without a line
// break was cut off and is ignored. Other errors are an [Error] or an error of the file.
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

// next returns the next line without its line break.
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
			return nil, err // io.EOF drops a line that was cut off
		default:
			return bytes.TrimSuffix(text[:len(text)-1], []byte("\r")), nil
		}
	}
}
