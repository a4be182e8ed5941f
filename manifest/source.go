package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/protocol"
)

// The codes of this package's diagnostics.
const (
	CodeInvalid     = "manifest_invalid"   // Error: plugin.toml cannot be used
	CodeTooLarge    = "manifest_too_large" // Error: over a limit, so not even parsed
	CodeUnreadable  = "file_unreadable"    // Error: the file cannot be opened or read
	CodeNotRegular  = "not_regular"        // Error: a FIFO, socket, device or directory where a file belongs
	CodeUnsupported = "not_supported"      // Info: accepted, and has no effect
	CodeSidecar     = "sidecar_invalid"    // Error: .mcp.json, or one of its servers, cannot be used
	CodeSidecarNote = "sidecar_note"       // Info: something in .mcp.json that was guessed or has no effect
)

// MaxBytes is the largest plugin.toml or .mcp.json that is read.
const MaxBytes = 64 << 10

const utf8BOM = "\xef\xbb\xbf"

// source is a file's text, the places of its keys, and what was found wrong.
type source struct {
	path  string
	text  string // without a byte order mark
	root  *node
	code  string // of its errors
	lines []int  // offsets of the line starts
	diags []protocol.Diagnostic
}

// node is where a key or an array element stands in a file.
type node struct {
	off      int
	kids     map[string]*node // of a table, by key
	items    []*node          // of an array
	reported bool             // its value could not be decoded; say no more about it
}

func (n *node) kid(key string) *node {
	if n == nil {
		return nil
	}
	return n.kids[key]
}

func (n *node) item(i int) *node {
	if n == nil || i >= len(n.items) {
		return nil
	}
	return n.items[i]
}

// add returns the child of that key, made if it is new.
func (n *node) add(key string, off int) *node {
	if k := n.kids[key]; k != nil {
		return k
	}
	if n.kids == nil {
		n.kids = make(map[string]*node)
	}
	k := &node{off: off}
	n.kids[key] = k
	return k
}

// newSource checks what every parser takes for granted: size and encoding. On
// failure the source has one diagnostic and ok is false.
func newSource(path, code string, data []byte) (s *source, ok bool) {
	s = &source{path: path, code: code, root: &node{}, lines: []int{0}}
	if len(data) > MaxBytes {
		s.diags = append(s.diags, protocol.Diagnostic{Level: protocol.LevelError, Code: CodeTooLarge, Path: path,
			Message: fmt.Sprintf("the file has more than %d KiB", MaxBytes>>10)})
		return s, false
	}
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		s.errorAt(0, "save the file as UTF-8", "the file is UTF-16")
		return s, false
	}
	s.text = strings.TrimPrefix(string(data), utf8BOM)
	for i, c := range []byte(s.text) {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	if i := invalidUTF8(s.text); i >= 0 {
		s.errorAt(i, "save the file as UTF-8", "byte 0x%02X is not UTF-8", s.text[i])
		return s, false
	}
	if i := strings.IndexByte(s.text, 0); i >= 0 {
		s.errorAt(i, "save the file as UTF-8 text", "the file has a NUL byte")
		return s, false
	}
	return s, true
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// position returns the 1-based line and byte column of an offset.
func (s *source) position(off int) (line, column int) {
	line, _ = slices.BinarySearch(s.lines, off+1) // the number of lines that start at or before off
	return line, off - s.lines[line-1] + 1
}

func (s *source) diagnose(level protocol.Level, code string, off int, hint, format string, args ...any) {
	line, column := s.position(off)
	s.diags = append(s.diags, protocol.Diagnostic{Level: level, Code: code, Path: s.path, Line: line, Column: column,
		Message: fmt.Sprintf(format, args...), Hint: hint})
}

func (s *source) errorAt(off int, hint, format string, args ...any) {
	s.diagnose(protocol.LevelError, s.code, off, hint, format, args...)
}

// find walks keys (string) and indices (int) from the root as far as they
// exist.
func (s *source) find(path ...any) *node {
	n := s.root
	for _, step := range path {
		var next *node
		switch step := step.(type) {
		case string:
			next = n.kid(step)
		case int:
			next = n.item(step)
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// failed reports whether any diagnostic is an Error.
func failed(diags []protocol.Diagnostic) bool {
	return slices.ContainsFunc(diags, func(d protocol.Diagnostic) bool { return d.Level == protocol.LevelError })
}

// sortByPosition puts the diagnostics of one file in the order of its lines.
func sortByPosition(diags []protocol.Diagnostic) {
	slices.SortStableFunc(diags, func(a, b protocol.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
}
