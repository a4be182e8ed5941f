package jsonrpc

import (
	"errors"
	"strings"
	"testing"
)

// encoder appends itself.
type encoder string

func (e encoder) Append(frame []byte) []byte { return append(frame, e...) }
func (e encoder) Size() int                  { return len(e) }

func TestAppend(t *testing.T) {
	long := strings.Repeat("a", 100<<10)
	for _, c := range []struct {
		name string
		m    Message
		want string
	}{
		{"request", Message{ID: raw("1"), Method: "m", Params: raw(`{"n":1.0, "b":"<é>"}`)},
			`{"jsonrpc":"2.0","id":1,"method":"m","params":{"n":1.0, "b":"<é>"}}`},
		{"no params", Message{ID: raw(`"a"`), Method: "m", Params: raw("")}, `{"jsonrpc":"2.0","id":"a","method":"m"}`},
		{"notification", Message{Method: "a\"\n/é"}, `{"jsonrpc":"2.0","method":"a\"\n/é"}`},
		{"bare", Message{ID: raw("1"), Method: "m", Bare: true}, `{"id":1,"method":"m"}`},
		{"result", Message{ID: raw("1"), Result: raw("[]")}, `{"jsonrpc":"2.0","id":1,"result":[]}`},
		{"encoder", Message{ID: raw("1"), Encoder: encoder("[2]")}, `{"jsonrpc":"2.0","id":1,"result":[2]}`},
		{"request that was answered", Message{ID: raw("1"), Method: "m", Encoder: encoder("[2]")},
			`{"jsonrpc":"2.0","id":1,"method":"m"}`},
		{"error beside an encoder", Message{ID: raw("1"), Error: raw("{}"), Encoder: encoder("[2]")},
			`{"jsonrpc":"2.0","id":1,"error":{}}`},
		{"no result", Message{ID: raw("1")}, `{"jsonrpc":"2.0","id":1,"result":null}`},
		{"error", Message{ID: raw("1"), Error: raw("{}")}, `{"jsonrpc":"2.0","id":1,"error":{}}`},
		{"line breaks", Message{ID: raw("1"), Result: raw("{\r\n \"a\": [1,\n2]\r}")},
			`{"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}}`},
		{"a late line break", Message{ID: raw("1"), Result: raw(`["` + long + `",` + "\r" + `2]`)},
			`{"jsonrpc":"2.0","id":1,"result":["` + long + `",2]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Append([]byte("x"), &c.m)
			if err != nil || string(got) != "x"+c.want {
				t.Errorf("got %.200s, %v\nwant x%.200s", got, err, c.want)
			}
		})
	}
	got, err := Append([]byte("x"), &Message{ID: raw("1"), Result: raw("\"a\nb\"")})
	if err == nil || string(got) != "x" {
		t.Errorf("a line break that cannot be removed: %s, %v", got, err)
	}
}

func TestRawError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New(`a "b"`), `{"code":-32603,"message":"a \"b\""}`},
		{&Error{Code: 7, Message: "m", Data: raw(`{"<":9007199254740993}`)},
			`{"code":7,"message":"m","data":{"<":9007199254740993}}`},
		{errors.Join(&Error{Code: 7, Message: "m", Data: raw(`{broken`)}), `{"code":7,"message":"m"}`},
	} {
		if got := rawError(c.err); string(got) != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
