// Package display prepares untrusted text for people and models: it shortens it and removes invisible characters.
package display

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut shortens s to at most max bytes, ellipsis included, without splitting a rune.
func Cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Prefix(s, max-len("…")) + "…"
}

// Prefix returns at most max bytes of s, without splitting a rune or adding an ellipsis.
func Prefix(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max]
}

// CutWords is [Cut] that does not split a word either, so that secrets are whole when they are masked later.
func CutWords(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Words(s[:max-len("…")])
}

// Words drops the last, possibly incomplete word of s and adds an ellipsis. Blanks, line breaks and quotes end
// words.
func Words(s string) string { return s[:strings.LastIndexAny(s, " \t\r\n\"'`")+1] + "…" }

// Visible removes characters that a model reads but a reader cannot see: control, bidirectional, zero-width and
// tag characters. Newlines and tabs stay.
func Visible(s string) string { return visible(s, "\n\t") }

func visible(s, keep string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !strings.ContainsRune(keep, r) || Invisible(r) {
			return -1
		}
		return r
	}, s)
}

// Invisible reports whether r is a format character or selector without a glyph.
func Invisible(r rune) bool { return unicode.Is(invisible, r) }

var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, // soft hyphen
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // combining grapheme joiner
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, // Arabic letter mark
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x200b, Hi: 0x200f, Stride: 1}, // zero width, direction marks
		{Lo: 0x202a, Hi: 0x202e, Stride: 1}, // embeddings and overrides
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, // word joiner, isolates
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // halfwidth Hangul filler
		{Lo: 0xfff0, Hi: 0xfffb, Stride: 1}, // specials
	},
	R32: []unicode.Range32{
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, // musical format controls
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, more variation selectors
	},
	LatinOffset: 1,
}

// Escape makes untrusted text safe for a terminal or log: control characters, escape sequences, bidirectional and
// zero-width characters, line separators and invalid UTF-8 become \x1b, \u202e and so on. Tabs stay.
func Escape(s string) string {
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1, r < utf8.RuneSelf && unsafeRune(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r > 0xffff && unsafeRune(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case unsafeRune(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// unsafeRune reports whether Escape replaces r. That includes U+FFFD, because invalid UTF-8 decodes to it.
func unsafeRune(r rune) bool {
	return r == utf8.RuneError || r != '\t' && !unicode.IsGraphic(r)
}
