package clientsettings

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
		if n := opaque(data[i:], isTOML); n > 0 {
			i += n
			continue
		}
		switch data[i] {
		case '[', '{':
			if depth++; depth > maxNesting {
				return fmt.Errorf("it is nested deeper than %d levels", maxNesting)
			}
		case ']', '}':
			depth--
		case ',':
			if values++; values > maxValues {
				return fmt.Errorf("it has more than %d values", maxValues)
			}
		}
		i++
	}
	return nil
}

// opaque returns the length of the string or comment at the start of text; 0 for anything else.
func opaque(text []byte, isTOML bool) int {
	switch c := text[0]; {
	case isTOML && (c == '"' || c == '\''):
		return stringLength(text)
	case c == '"':
		return 1 + quoted(text[1:], text[:1])
	case isTOML && c == '#', !isTOML && bytes.HasPrefix(text, []byte("//")):
		return past(text, "\n")
	case !isTOML && bytes.HasPrefix(text, []byte("/*")):
		return 2 + past(text[2:], "*/")
	}
	return 0
}

// stringLength returns the length of the TOML string at the start of text.
func stringLength(text []byte) int {
	mark := text[:1]
	if triple := bytes.Repeat(mark, 3); bytes.HasPrefix(text, triple) {
		mark = triple
	}
	n := len(mark) + quoted(text[len(mark):], mark)
	for len(mark) == 3 && n < len(text) && text[n] == mark[0] { // quotes directly before the closing mark
		n++
	}
	return n
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
