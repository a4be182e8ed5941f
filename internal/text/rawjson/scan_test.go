package rawjson

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// Check and encoding/json accept the same texts.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{`-0.0e-0`, `[[],{},{"a":[true,false,null]}]`, `"\ud83d\ude00\/\b"`, `01`, `1.`, `"\x"`,
		"\"\x7f\xc2\x80\"", `[1 2]`, `{"a" 1}`, `{1:2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Check(b)
		if errors.Is(err, ErrDepth) {
			return
		}
		got := err == nil
		if want := json.Valid(b) && utf8.Valid(b); got != want {
			t.Errorf("%q: accepted %t, encoding/json %t (%v)", b, got, want, err)
		}
	})
}

// Each kind of byte is handled at each offset of the eight-byte steps.
func TestSkipString(t *testing.T) {
	for at := range 20 {
		for _, c := range []string{`"`, `\n`, "\x1f", "\x00", "é", "\xff", "\x7f", "!", "#", "[", "]", "\u2028", "😀"} {
			s := `"` + strings.Repeat("a", at) + c + strings.Repeat("b", 20) + `"`
			i, err := SkipString([]byte(s), 0)
			got := err == nil && i == len(s)
			if want := json.Valid([]byte(s)) && utf8.ValidString(s); got != want {
				t.Errorf("%q at %d: accepted %t, want %t", c, at, got, want)
			}
		}
	}
}

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		err      error
	}{
		{`{"a": 12345678901234567890 }`, `{"a": 12345678901234567890 }`, nil},
		{"{\n \"a\": 1.50,\r\n \"b\": \"x\\ny\"\n}\n", `{"a":1.50,"b":"x\ny"}`, nil},
		{` [1]`, "", ErrObject},
		{`null`, "", ErrObject},
		{``, "", ErrEnd},
		{`{"a":1} {}`, "", ErrSyntax},
	} {
		if got, err := Object([]byte(tt.in)); string(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %s, %v; want %s, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}
