package schema

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range []string{
		`null`, ` true `, `[]`, `{}`, `[1,-2.50,3e2]`, `{"a":{"b":[null,false,"x\n\u00e9\ud83d\ude00"]},"":[[]]}`,
		`"` + strings.Repeat("é", 10) + `"`, `{"a" : [ 1 , { } ] }`, `"\\"`, `["\"","]"]`,
	} {
		got, _, err := decode([]byte(text), bounds{1000, 100})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strconv.Quote(text), diff)
		}
	}
}

func TestStringTokens(t *testing.T) {
	for _, text := range []string{`""`, `"a"`, `"\""`, `"\\"`, `"\\\""`, `"a\\"`, `"a\"b\"c"`, `"\u0022"`} {
		var want string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		s := scanner{data: []byte(text + `,"next"`)}
		if got := s.text(); got != want || s.pos != len(text) {
			t.Errorf("%s: %q up to %d, want %q", text, got, s.pos, want)
		}
	}
}
