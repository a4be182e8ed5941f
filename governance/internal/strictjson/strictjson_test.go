package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
)

func TestNoTwins(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, `"m%d":%d,`, i, i)
		}
		return "{" + b.String() + last + ":1}"
	}
	for text, want := range map[string]string{
		`{}`: "",
		`[]`: "",
		`{"a":1,"b":{"a":"a","c":["a","a",{"a":1},{"a":2}]}}`: "",
		`"a"`:                             "",
		``:                                "",
		`{"a":"b","c":"b"}`:               "",
		many(`"n"`):                       "",
		`{"uri":1,"uri":2}`:               `"uri" stands there twice`,
		`{"a":[{"x":1, "b":{}, "x" :2}]}`: `"x" stands there twice`,
		`{"uri":1,"URI":2}`:               `"URI" stands beside "uri"`,
		`{"\u0075ri":1,"uri":2}`:          `"uri" stands there twice`,
		`{"s":1,"\u017f":2}`:              `stands beside "s"`,
		`{"limit":1,"l\u0131m\u0131t":2}`: `stands beside "limit"`,
		`{"ID":1,"\u0130d":2}`:            `stands beside "ID"`,
		many(`"\u0131":2,"i"`):            `stands beside`,
		many(`"M7"`):                      `"M7" stands beside "m7"`,
		many(`"m99"`):                     `"m99" stands there twice`,
	} {
		if err := NoTwins([]byte(text)); fmt.Sprint(err) != "<nil>" && want == "" ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	for text, ambiguous := range map[string]bool{
		many(`"M7"`):                 false,
		many(`"m99"`):                true,
		"{\"\xff\":1}":               true, // not UTF-8
		`{"\ud800":1,"\udfff":2}`:    true,
		`{"uri":1,"URI":2,"uRi":{}}`: false,
	} {
		if _, err := Result([]byte(text)); (err != nil) != ambiguous {
			t.Errorf("result %.60s: %v", text, err)
		}
	}
}

// FuzzRepeated compares what is refused with the names that a decoder returns.
func FuzzRepeated(f *testing.F) {
	for _, text := range []string{
		`{"a":[{"b:":1,"b:":"\":"}],"c":{}}`,
		`{"a":1,"A":{"\u0131":1,"i":[]}}`,
		`{"\ud800":1,"\udfff":2}`,
		`{` + strings.Repeat(`"a":1,"b":{"a":1},`, 40) + `"c":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if rawjson.Check(text) != nil {
			t.Skip("no JSON")
		}
		folded := func(s string) string { return strings.ToLower(strings.ToUpper(s)) }
		_, err := Arguments(text)
		if want := repeats(t, text, folded); want != (err != nil) {
			t.Errorf("arguments %q: %v, want an error: %t", text, err, want)
		}
		_, err = Result(text)
		if want := repeats(t, text, func(s string) string { return s }); want != (err != nil) {
			t.Errorf("result %q: %v, want an error: %t", text, err, want)
		}
	})
}

// repeats reports whether an object in text has two names with the same key.
func repeats(t *testing.T, text []byte, key func(string) string) (found bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	token := func() json.Token {
		next, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	var value func()
	value = func() {
		open, _ := token().(json.Delim)
		names := make(map[string]bool)
		for open != 0 && d.More() {
			if open == '{' {
				name := key(token().(string))
				found = found || names[name]
				names[name] = true
			}
			value()
		}
		if open != 0 {
			token()
		}
	}
	value()
	return found
}
