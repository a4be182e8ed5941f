package rawjson

import (
	"encoding/json"
	"strings"
	"testing"
)

// Quoting and unquoting agree with encoding/json.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"",
		"plain",
		"a longer plain text",
		"\"\\/\b\f\n\r\t\x00\x1f\x7f",
		"żółw 乌龟 😀",
		"cut \xf0\x9f\x98",
		"\xff\xfe",
		"<&>\u2028",
	} {
		f.Add(s)
		f.Add(strings.Repeat("x", 9) + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := AppendText([]byte("["), s)[1:]
		if same := AppendText(nil, []byte(s)); string(same) != string(quoted) {
			t.Errorf("%q: %s as a string, %s as bytes", s, quoted, same)
		}
		var got string
		if err := json.Unmarshal(quoted, &got); err != nil || got != string([]rune(s)) {
			t.Errorf("%q became %s: %q, %v", s, quoted, got, err)
		}
		if text, ok := Text(quoted); !ok || text != got {
			t.Errorf("Text(%s) = %q, %t; want %q", quoted, text, ok, got)
		}
		var want string
		if end, err := SkipString([]byte(s), 0); err != nil || end < len(s) || json.Unmarshal([]byte(s), &want) != nil {
			return // not a string
		}
		if text, ok := Text(json.RawMessage(s)); !ok || text != want {
			t.Errorf("Text(%s) = %q, %t; want %q", s, text, ok, want)
		}
	})
}

func TestTextRefusesOtherValues(t *testing.T) {
	for _, value := range []string{"", "null", "1", `"`, `{"a":"b"}`, `["a"]`} {
		if text, ok := Text(json.RawMessage(value)); ok {
			t.Errorf("Text(%s) = %q", value, text)
		}
	}
}
