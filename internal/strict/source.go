package strict

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// source is the text of one file and knows the place of each of its bytes.
type source struct {
	file   string
	data   []byte
	starts []int // offset of each line
}

// newSource returns the text of a file without its byte order mark, nil after
// reporting that it is too big or not text.
func newSource(file string, data []byte, r *Report) *source {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) > MaxBytes {
		r.Add(Pos{File: file}, "", "%d bytes are more than a configuration file may have (%d)", len(data), MaxBytes)
		return nil
	}
	s := &source{file: file, data: data, starts: []int{0}}
	for i, c := range data {
		if c == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	if !utf8.Valid(data) {
		r.Add(s.pos(invalidAt(data)), "save it as UTF-8", "not UTF-8 text")
		return nil
	}
	return s
}

func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// pos returns the place of a byte, the nearest one when it is outside the text.
func (s *source) pos(offset int) Pos {
	offset = max(0, min(offset, len(s.data)))
	i, found := slices.BinarySearch(s.starts, offset)
	if !found {
		i--
	}
	return Pos{File: s.file, Line: i + 1, Column: offset - s.starts[i] + 1}
}

// posOfRune returns the place of a character counted from 1 on its line.
func (s *source) posOfRune(line, column int) Pos {
	if line < 1 || line > len(s.starts) {
		return Pos{File: s.file, Line: line, Column: column}
	}
	offset := s.starts[line-1]
	for range column - 1 {
		_, size := utf8.DecodeRune(s.data[offset:])
		offset += size
	}
	return Pos{File: s.file, Line: line, Column: offset - s.starts[line-1] + 1}
}
