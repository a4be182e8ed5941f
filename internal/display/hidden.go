package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden is a character in a JSON value that a reader does not see and a model reads.
type Hidden struct {
	Pointer string // JSON Pointer to the text, or to the member whose key has the character
	Rune    rune
}

func (h Hidden) String() string { return fmt.Sprintf("U+%04X at %s", h.Rune, h.Pointer) }

// Tag reports whether the character can spell whole messages that no reader sees: one of the
// tag characters and variation selectors from U+E0000 on.
func (h Hidden) Tag() bool { return isTag(h.Rune) }

func isTag(r rune) bool { return r >= 0xe0000 && r <= 0xe0fff }

// maxHidden is how many characters FindHidden returns.
const maxHidden = 8

// FindHidden returns the first hidden character of each text and each key of value, of at most
// 8 texts, those with tag characters first. Joiners and variation selectors after a character
// beyond ASCII do not count: they belong to emoji and to scripts that need them; nor do line
// breaks and tabs. It returns nil for a value that is not JSON.
func FindHidden(value json.RawMessage) []Hidden {
	if !bytes.ContainsFunc(value, func(r rune) bool { return r >= utf8.RuneSelf || r == '\\' }) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	var f finder
	f.look("", v)
	found := append(f.tags, f.others...)
	return found[:min(len(found), maxHidden)]
}

type finder struct{ tags, others []Hidden }

func (f *finder) look(pointer string, v any) {
	switch v := v.(type) {
	case string:
		f.text(pointer, v)
	case []any:
		for i, element := range v {
			f.look(pointer+"/"+strconv.Itoa(i), element)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(Visible(key))
			f.text(at, key)
			f.look(at, v[key])
		}
	}
}

func (f *finder) text(pointer, s string) {
	first, before := rune(-1), rune(0)
	for _, r := range s {
		if hides(before, r) {
			if isTag(r) {
				f.tags = append(f.tags, Hidden{pointer, r})
				return
			}
			if first < 0 {
				first = r
			}
		}
		before = r
	}
	if first >= 0 {
		f.others = append(f.others, Hidden{pointer, first})
	}
}

// hides reports whether r, which follows before, is hidden text.
func hides(before, r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return false
	case r == 0xfe0e || r == 0xfe0f || r == 0x200c || r == 0x200d:
		return before < utf8.RuneSelf && !strings.ContainsRune("0123456789#*", before)
	}
	return unicode.IsControl(r) || Invisible(r)
}
