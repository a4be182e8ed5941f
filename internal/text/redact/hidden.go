package redact

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/text/display"
)

// hidden returns the length of the invisible character at the start of text, 0 if there is none. Line breaks and
// tabs end words and do not count.
func hidden(text []byte) int {
	r, size := utf8.DecodeRune(text)
	if r != '\n' && r != '\t' && r != '\r' && (unicode.IsControl(r) || display.Invisible(r)) {
		return size
	}
	return 0
}

// beginsHidden are the first bytes of invisible characters.
var beginsHidden = func() (begins [256]bool) {
	for c := range begins {
		begins[c] = hidden([]byte{byte(c)}) > 0 ||
			bytes.IndexByte([]byte("\xc2\xcd\xd8\xe1\xe2\xe3\xef\xf0\xf3"), byte(c)) >= 0
	}
	return begins
}()

func hasHidden(text []byte) bool {
	for i, c := range text {
		if beginsHidden[c] && hidden(text[i:]) > 0 {
			return true
		}
	}
	return false
}

// mayHide reports whether text may have invisible characters, escaped ones included. It is called once per
// document.
func mayHide(text []byte) bool {
	return hasHidden(text) || bytes.Contains(text, []byte(`\u`)) || bytes.Contains(text, []byte(`\b`)) ||
		bytes.Contains(text, []byte(`\f`))
}

// hiddenSpans finds secrets with invisible characters inside.
func (w *search) hiddenSpans(list []span, text []byte) []span {
	if !hasHidden(text) {
		return list
	}
	shown := make([]byte, 0, len(text))
	var cuts []span // the parts of text that shown leaves out
	for i := 0; i < len(text); {
		if size := hidden(text[i:]); size > 0 {
			cuts = append(cuts, span{start: i, end: i + size})
			i += size
			continue
		}
		shown = append(shown, text[i])
		i++
	}
	found := merge(w.plainSpans(shown)) // sorted, so that one pass maps all
	removed, next := 0, 0
	at := func(pos int) int {
		for next < len(cuts) && cuts[next].start-removed <= pos {
			removed += cuts[next].end - cuts[next].start
			next++
		}
		return pos + removed
	}
	for _, s := range found {
		start := at(s.start)
		list = append(list, span{start, at(s.end-1) + 1, s.rule})
	}
	return list
}

const minRun = 32 // minimum length of base64 text within another text

// encodedSpans finds base64 of texts with a secret inside another text. It tests every 32nd byte, since no run is
// shorter.
func (w *search) encodedSpans(list []span, text []byte) []span {
	tried := 0 // end of the last lines that were decoded together
	for i := minRun - 1; i < len(text); i += minRun {
		if !inBase64[text[i]] {
			continue
		}
		start, end := i, i+1
		for start > 0 && inBase64[text[start-1]] {
			start--
		}
		for end < len(text) && inBase64[text[end]] {
			end++
		}
		if end-start >= minRun && startsAsText(text[start:end]) {
			if w.canceled() {
				return list
			}
			all := end
			if start >= tried {
				all = wrapped(text, start, end)
				tried = all
			}
			rule := w.ruleWithin(text[start:all])
			if rule == "" && all > end {
				all, rule = end, w.ruleWithin(text[start:end])
			}
			if rule != "" {
				list, end = append(list, span{start, all, rule}), all
			}
		}
		i = max(i, end)
	}
	return list
}

// wrapped returns the end of base64 text whose first line is text[start:end]. Programs break it into lines of one
// length; only the last may be shorter.
func wrapped(text []byte, start, end int) int {
	width := end - start
	if width%4 != 0 || start > 0 && text[start-1] != '\n' {
		return end
	}
	for {
		from := afterBreak(text, end)
		if from < 0 {
			return end
		}
		to := from
		for to < len(text) && to-from <= width && inBase64[text[to]] {
			to++
		}
		switch n := to - from; {
		case n == width:
			end = to
		case n > 0 && n < width && (to == len(text) || bytes.IndexByte([]byte("=\r\n"), text[to]) >= 0):
			return to
		default:
			return end
		}
	}
}

// afterBreak returns the index after the line break at text[at], -1 if there is none.
func afterBreak(text []byte, at int) int {
	if bytes.HasPrefix(text[at:], []byte("\r\n")) {
		at++
	}
	if at == len(text) || text[at] != '\n' {
		return -1
	}
	return at + 1
}

// startsAsText reports whether base64 text may decode to ASCII: the first of every four characters then encodes
// the upper bits of a printable character. It rules out most words and paths.
func startsAsText(encoded []byte) bool {
	for i := 0; i < minRun; i += 4 {
		if c := encoded[i]; (c < 'I' || c > 'Z') && (c < 'a' || c > 'f') && c != 'C' { // C: tab, newline
			return false
		}
	}
	return true
}

// ruleWithin returns the rule of the first secret in the decoded text, or "".
func (w *search) ruleWithin(encoded []byte) string {
	if !looksEncoded(encoded) {
		return ""
	}
	hides := w.hides
	w.within, w.hides = true, true
	defer func() { w.within, w.hides = false, hides }()
	return w.ruleIn(decodeBase64(encoded))
}

// inBase64 are the characters of both alphabets.
var inBase64 = func() (in [256]bool) {
	for c := range in {
		in[c] = isLetter(byte(c)) || isDigit(byte(c)) || c == '+' || c == '/' || c == '-' || c == '_'
	}
	return in
}()
