package redact

import (
	"encoding/base64"
	"html"
	"net/url"
	"strings"
)

const (
	lowerHex = "0123456789abcdef"
	upperHex = "0123456789ABCDEF"
)

// encodings returns the forms of a known secret in addresses, markup, hexadecimal and base64.
func encodings(value string) []string {
	forms := []string{url.QueryEscape(value), url.PathEscape(value), html.EscapeString(value), hexadecimal(value, lowerHex), hexadecimal(value, upperHex)}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 { // bytes of the group that the secret begins in
			encoded := encoding.EncodeToString(append(make([]byte, before), value...))
			from, to := (before*8+5)/6, len(encoded)
			if (before+len(value))%3 != 0 {
				to-- // its last character depends on what follows
			}
			if to-from >= minEncodedSecret {
				forms = append(forms, encoded[from:to])
			}
		}
	}
	return forms
}

// minEncodedSecret is the length of the shortest part of a base64 text that is masked.
const minEncodedSecret = 10

func hexadecimal(value, digits string) string {
	var b strings.Builder
	for i := range len(value) {
		b.WriteByte(digits[value[i]>>4])
		b.WriteByte(digits[value[i]&15])
	}
	return b.String()
}
