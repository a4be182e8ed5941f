package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden is a character in a JSON value that a model reads but a reader cannot see.
type Hidden struct {
	Pointer string // JSON Pointer to the text, or to the member with the key
	Rune    rune
}

func (h Hidden) String() string { return fmt.Sprintf("U+%04X at %s", h.Rune, h.Pointer) }

// Tag reports whether the character is a tag character or variation selector from U+E0000 on, which can spell
// whole hidden messages.
func (h Hidden) Tag() bool { return IsTag(h.Rune) }

// IsTag reports whether r is a tag character or variation selector from U+E0000 on.
func IsTag(r rune) bool { return r >= 0xe0000 && r <= 0xe0fff }

// maxHidden bounds the results of FindHidden.
const maxHidden = 8

// FindHidden returns the first hidden character of each string and key of value, at most 8, tag characters first.
// It reads all members, repeated ones included, since clients differ in which one they use. Line breaks and tabs
// do not count, nor does a joiner or variation selector after a character beyond ASCII: emoji and some scripts
// need them. It returns nil if value is not JSON.
func FindHidden(value json.RawMessage) []Hidden {
	if !mayHide(value) || !json.Valid(value) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var f finder
	f.read(d)
	found := append(f.tags, f.others...)
	return found[:min(len(found), maxHidden)]
}

// mayHide quickly rules out most values: ASCII with simple escapes only.
func mayHide(value []byte) bool {
	for i, c := range value {
		if c >= 0x7f || c == '\\' && i+1 < len(value) && strings.IndexByte("ubf", value[i+1]) >= 0 {
			return true
		}
	}
	return false
}

type finder struct {
	path         []byte // JSON Pointer of the value being read
	tags, others []Hidden
}

// read reads one valid value.
func (f *finder) read(d *json.Decoder) {
	token, _ := d.Token()
	if text, ok := token.(string); ok {
		f.text(text)
	}
	open, ok := token.(json.Delim)
	if !ok {
		return
	}
	above := len(f.path)
	for i := 0; d.More(); i++ {
		if open == '[' {
			f.path = strconv.AppendInt(append(f.path, '/'), int64(i), 10)
		} else {
			token, _ := d.Token()
			key, _ := token.(string)
			f.path = append(append(f.path, '/'), pointerEscapes.Replace(Visible(key))...)
			f.text(key)
		}
		f.read(d)
		f.path = f.path[:above]
	}
	_, _ = d.Token() // closing bracket
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func (f *finder) text(s string) {
	first, before := rune(-1), rune(0)
	for _, r := range s {
		if hides(before, r) {
			if IsTag(r) {
				f.tags = append(f.tags, Hidden{string(f.path), r})
				return
			}
			if first < 0 {
				first = r
			}
		}
		before = r
	}
	if first >= 0 {
		f.others = append(f.others, Hidden{string(f.path), first})
	}
}

// hides reports whether r after before is hidden text.
func hides(before, r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case isJoiner(r) || isSelector(r):
		belongs := before >= utf8.RuneSelf || strings.ContainsRune("0123456789#*", before)
		return !belongs || Invisible(before) && !(isJoiner(r) && isSelector(before)) // a row of them can spell bits
	}
	return unicode.IsControl(r) || Invisible(r)
}

func isJoiner(r rune) bool { return r == 0x200c || r == 0x200d }

// isSelector reports whether r selects text or emoji presentation of the character before it.
func isSelector(r rune) bool { return r == 0xfe0e || r == 0xfe0f }
