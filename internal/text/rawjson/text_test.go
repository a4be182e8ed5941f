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

func TestSumOf(t *testing.T) {
	values := []string{
		`{"a":1,"b":[1,2]}`, `{ "b" : [1, 2], "a" : 1 }`, `{"a":1,"b":[2,1]}`, `{"a":1.0,"b":[1,2]}`, `1`, `1.0`, `"1"`,
		`"a"`, `"\u0061"`, `null`, ``, `{}`, `[]`, `{"a":12345678901234567890}`, `{"a":12345678901234567891}`, `{"a"`,
		`{"a":1} `, `"<"`, `"\u003c"`, `{"a":null}`, strings.Repeat("[", 20_000),
	}
	for _, a := range values {
		for _, b := range values {
			if equal := Equal([]byte(a), []byte(b)); (SumOf([]byte(a)) == SumOf([]byte(b))) != equal {
				t.Errorf("%.20s and %.20s: equal is %t", a, b, equal)
			}
		}
	}
}

// A text of a megabyte: letters, lines of 80, and a language that is not ASCII.
func BenchmarkAppendText(b *testing.B) {
	for name, text := range map[string]string{
		"letters": strings.Repeat("x", 1<<20),
		"lines":   strings.Repeat(strings.Repeat("x", 79)+"\n", 1<<20/80),
		"utf8":    strings.Repeat("żółw 乌龟 ", 1<<20/16),
	} {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 2<<20)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				buf = AppendText(buf[:0], text)
			}
		})
	}
}
