package mcphttp

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

func TestDecode(t *testing.T) {
	for body, want := range map[string]jsonrpc.Message{
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:                       {ID: []byte(`1`), Method: "m"},
		`{"jsonrpc":"2.0","method":"m","params":null}`:                {Method: "m"},
		` {"method":"m", "params" : {"a": 1} ,"jsonrpc":"2.0","x":0}`: {Method: "m", Params: []byte(`{"a": 1}`)},
		"{\"jsonrpc\":\"2.0\",\"id\":\"\\n\",\"method\":\"m\",\"params\":{\n\t\"a\": [1.0,\r\n1e9]}}": {
			ID: []byte(`"\n"`), Method: "m", Params: []byte(`{"a":[1.0,1e9]}`)},
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\n}}": {ID: []byte(`1`), Result: []byte(`{}`)},
	} {
		got, err := Decode([]byte(body))
		got.Raw = nil
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", body, err, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for body, want := range map[string]struct {
		code int64
		id   string
	}{
		``:                      {jsonrpc.CodeParse, ""},
		`{`:                     {jsonrpc.CodeParse, ""},
		"{\"\xff\":1}":          {jsonrpc.CodeParse, ""},
		`[]`:                    {jsonrpc.CodeInvalidRequest, ""},
		`7`:                     {jsonrpc.CodeInvalidRequest, ""},
		`{"id":1,"method":"m"}`: {jsonrpc.CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:           {jsonrpc.CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":1,"method":"m","params":[]}`:  {jsonrpc.CodeInvalidRequest, "1"},
		`{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}`: {jsonrpc.CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`:     {jsonrpc.CodeInvalidRequest, "1"},
	} {
		m, err := Decode([]byte(body))
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != want.code || string(m.ID) != want.id {
			t.Errorf("%s: id %q, %v; want %d for id %q", body, m.ID, err, want.code, want.id)
		}
	}
}

// FuzzDecode checks that an accepted message encodes to one line, which decodes to the same message.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","arguments":{"n":12345678901234567890}}}`))
	f.Add([]byte("{\r\n\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"error\":{\n}}"))
	f.Add([]byte(`[{"jsonrpc":"2.0"}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := Decode(body)
		if err != nil {
			return
		}
		line, err := jsonrpc.Append(nil, &m)
		if err != nil {
			t.Fatalf("%q was accepted but does not encode: %v", body, err)
		}
		again, err := Decode(line)
		m.Raw, again.Raw = nil, nil
		if diff := cmp.Diff(m, again); diff != "" || err != nil {
			t.Errorf("%q became %q: %v\n%s", body, line, err, diff)
		}
	})
}
