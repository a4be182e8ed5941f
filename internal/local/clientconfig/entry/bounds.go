package entry

import (
	"bytes"
	"fmt"
)

// Limits of a file. The JSON and TOML parsers recurse without limit, and a stack overflow ends the program. Small
// values need up to a hundred times their size in memory.
const (
	maxNesting = 1000
	maxValues  = 500_000
)

// Bounds returns an error if JSON with comments, or TOML, is too deep or has too many values to be parsed safely.
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

// quoted returns the length of a string with its closing mark. A single-line string without one ends with its
// line, where the parsers then report the error.
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

// past returns the length of text up to and including mark.
func past(text []byte, mark string) int {
	if i := bytes.Index(text, []byte(mark)); i >= 0 {
		return i + len(mark)
	}
	return len(text)
}
