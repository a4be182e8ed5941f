package strict

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Source is the text of a file, with the position of each byte.
type Source struct {
	Text   string // without a byte order mark
	file   string
	starts []int // offset of each line
}

// NewSource removes the byte order mark. It copies data, so bound its size first.
func NewSource(file string, data []byte) *Source {
	s := &Source{file: file, Text: strings.TrimPrefix(string(data), "\xef\xbb\xbf"), starts: []int{0}}
	for i := range len(s.Text) {
		if s.Text[i] == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// Invalid returns the offset of the first invalid UTF-8 byte, or -1.
func (s *Source) Invalid() int {
	if utf8.ValidString(s.Text) {
		return -1
	}
	for i, r := range s.Text {
		if r == utf8.RuneError && !strings.HasPrefix(s.Text[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// Pos returns the position of a byte. An offset outside of the text is clamped.
func (s *Source) Pos(offset int) Pos {
	offset = max(0, min(offset, len(s.Text)))
	i, found := slices.BinarySearch(s.starts, offset)
	if !found {
		i--
	}
	return Pos{File: s.file, Line: i + 1, Column: offset - s.starts[i] + 1}
}

// offset is the reverse of [Source.Pos].
func (s *Source) offset(p Pos) int { return s.starts[p.Line-1] + p.Column - 1 }

// onLine returns the position of a byte of the 1-based line. An offset outside of the line is clamped.
func (s *Source) onLine(line, offset int) Pos {
	line = min(max(line, 1), len(s.starts))
	end := len(s.Text)
	if line < len(s.starts) {
		end = s.starts[line] - 1
	}
	return s.Pos(min(max(offset, s.starts[line-1]), end))
}

// posOfRune returns the position of a line and a character on it, both 1-based.
func (s *Source) posOfRune(line, column int) Pos {
	if line < 1 || line > len(s.starts) {
		return Pos{File: s.file, Line: line, Column: column}
	}
	offset := s.starts[line-1]
	for range column - 1 {
		_, size := utf8.DecodeRuneInString(s.Text[offset:])
		offset += size
	}
	return Pos{File: s.file, Line: line, Column: offset - s.starts[line-1] + 1}
}
