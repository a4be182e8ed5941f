package entry

import (
	"bytes"
	"fmt"
)

// The bounds of a file. The parsers of JSON and TOML recurse without a bound, and a stack that overflows
// ends the program; and a file of small values needs a hundred times its size in memory.
const (
	maxNesting = 1000
	maxValues  = 500_000
)

// Bounds returns an error for JSON with comments, or TOML, that is too deep or has too many values to be
// parsed.
func Bounds(data []byte, isTOML bool) error {
	depth, values := 0, 0
	for i := 0; i < len(data); {
		rest := data[i:]
		switch c := data[i]; {
		case c == '[' || c == '{':
			if depth++; depth > maxNesting {
				return fmt.Errorf("it is nested deeper than %d levels", maxNesting)
			}
			i++
		case c == ']' || c == '}':
			depth--
			i++
		case c == ',':
			if values++; values > maxValues {
				return fmt.Errorf("it has more than %d values", maxValues)
			}
			i++
		case isTOML && (bytes.HasPrefix(rest, []byte(`"""`)) || bytes.HasPrefix(rest, []byte("'''"))):
			i += 3 + quoted(rest[3:], rest[:3])
		case c == '"', isTOML && c == '\'':
			i += 1 + quoted(rest[1:], rest[:1])
		case isTOML && c == '#', !isTOML && bytes.HasPrefix(rest, []byte("//")):
			i += past(rest, "\n")
		case !isTOML && bytes.HasPrefix(rest, []byte("/*")):
			i += 2 + past(rest[2:], "*/")
		default:
			i++
		}
	}
	return nil
}

// quoted returns the length of a text with its end mark. A text on one line that has no end
// ends with the line, as the parsers then refuse the file there.
func quoted(text, mark []byte) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && mark[0] == '"':
			i++
		case text[i] == '\n' && len(mark) == 1:
			return i + 1
		case bytes.HasPrefix(text[i:], mark):
			return i + len(mark)
		}
	}
	return len(text)
}

// past returns the length of text up to and with the mark.
func past(text []byte, mark string) int {
	if i := bytes.Index(text, []byte(mark)); i >= 0 {
		return i + len(mark)
	}
	return len(text)
}
