package display

import "testing"

func TestEscapeIsSafeForTerminals(t *testing.T) {
	for s, want := range map[string]string{
		"plain\ttext ü 日本 😀":        "plain\ttext ü 日本 😀",
		"\x1b[31mred\x1b[0m":        `\x1b[31mred\x1b[0m`,
		"a\r\nb\x00\x7f":            `a\x0d\x0ab\x00\x7f`,
		"\u0085\u009b31m":           `\u0085\u009b31m`,
		"\u202eevil\u2066\u200b":    `\u202eevil\u2066\u200b`,
		"\u2028\ufeff":              `\u2028\ufeff`,
		"\U000e0041":                `\U000e0041`,
		"\xff\xfe ok":               `\xff\xfe ok`,
		"no\u00a0break ideo\u3000g": "no\u00a0break ideo\u3000g",
	} {
		if got := Escape(s); got != want {
			t.Errorf("Escape(%q) = %q, want %q", s, got, want)
		}
	}
}
