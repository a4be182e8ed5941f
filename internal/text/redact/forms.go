package redact

import (
	"encoding/base64"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
)

const (
	lowerHex = "0123456789abcdef"
	upperHex = "0123456789ABCDEF"
)

// minLine is the minimum length in bytes of a line that is masked by itself: shorter ones occur by chance.
const minLine = 12

// shown returns the forms of a secret after changes of white space: trimmed, with single blanks, and each of
// several lines.
func shown(value string) []string {
	texts := []string{value, strings.TrimSpace(value), strings.Join(strings.Fields(value), " ")}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minLine {
				texts = append(texts, line)
			}
		}
	}
	return distinct(texts)
}

// forms returns the encodings of a known secret in which programs write it.
func forms(value string) []string {
	valid := strings.ToValidUTF8(value, "\uFFFD")
	list := []string{value,
		valid, string([]rune(value)), display.Visible(value), display.Escape(value), display.Escape(valid),
		unquoted(strconv.Quote(value)), unquoted(strconv.QuoteToASCII(value)),
		hexadecimal(value, lowerHex), hexadecimal(value, upperHex),
		url.QueryEscape(value), url.PathEscape(value), (&url.URL{Path: value}).EscapedPath(),
	}
	for _, kept := range []string{"", "/", "!'()*"} { // RFC 3986, Python, JavaScript
		list = append(list, percent(value, kept, lowerHex), percent(value, kept, upperHex))
	}
	markup := html.EscapeString(value)
	list = append(list, markup)
	for _, apostrophe := range []string{"&#39;", "&#x27;", "&apos;"} {
		list = append(list, strings.NewReplacer("&#34;", "&quot;", "&#39;", apostrophe).Replace(markup))
	}
	for _, form := range asJSON(value) {
		list = append(append(list, form), asJSON(form)...)
	}
	return distinct(append(list, asBase64(value)...))
}

// distinct returns the texts of list that are long enough to be masked, each once.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(v string) bool { return len(v) < minSecret })
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// percent encodes value for an address, keeping letters, digits, -, ., _, ~ and the characters of kept.
func percent(value, kept, digits string) string {
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if isLetter(c) || isDigit(c) || strings.IndexByte("-._~", c) >= 0 || strings.IndexByte(kept, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

// asBase64 returns the base64 of value at each alignment, without the characters that depend on its neighbours.
func asBase64(value string) (forms []string) {
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes before value in its first group
			encoded := encoding.EncodeToString(append(make([]byte, before), value...))
			from, to := (before*8+5)/6, len(encoded)
			if (before+len(value))%3 != 0 {
				to-- // the last character depends on what follows
			}
			if to-from >= minEncodedSecret {
				forms = append(forms, encoded[from:to])
			}
		}
	}
	return forms
}

// minEncodedSecret is the minimum length of a base64 part that is masked.
const minEncodedSecret = 10

func hexadecimal(value, digits string) string {
	var b strings.Builder
	for i := range len(value) {
		b.WriteByte(digits[value[i]>>4])
		b.WriteByte(digits[value[i]&15])
	}
	return b.String()
}
