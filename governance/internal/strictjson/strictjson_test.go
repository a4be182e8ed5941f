package strictjson

import (
	"fmt"
	"strings"
	"testing"
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
		"{\"\xff\":1,\"\xfe\":2}":    true,
		`{"uri":1,"URI":2,"uRi":{}}`: false,
	} {
		if _, err := Result([]byte(text)); (err != nil) != ambiguous {
			t.Errorf("result %.60s: %v", text, err)
		}
	}
}
