package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/rawjson"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e400}}`,
			Message{ID: raw("1"), Method: "m", Params: raw(`{"a":1e400}`)}},
		{"notification", ` { "method" : "m\u002fn" , "jsonrpc" : "2.0" } `, Message{Method: "m/n"}},
		{"result", `{"jsonrpc":"2.0","id":"1","result":null}`, Message{ID: raw(`"1"`), Result: raw("null")}},
		{"error", `{"jsonrpc":"2.0","id":null,"error":{}}`, Message{ID: raw("null"), Error: raw("{}")}},
		{"error without an id", `{"jsonrpc":"2.0","error":{}}`, Message{ID: raw("null"), Error: raw("{}")}},
		{"null error beside a result", `{"jsonrpc":"2.0","id":1,"result":0,"error":null}`,
			Message{ID: raw("1"), Result: raw("0")}},
		{"null error beside a null result", `{"jsonrpc":"2.0","id":1,"result":null,"error":null}`,
			Message{ID: raw("1"), Result: raw("null")}},
		{"null result beside an error", `{"jsonrpc":"2.0","id":1,"error":{},"result":null}`,
			Message{ID: raw("1"), Error: raw("{}")}},
		{"W3 big id", `{"jsonrpc":"2.0","id":9007199254740993,"result":9007199254740993}`,
			Message{ID: raw("9007199254740993"), Result: raw("9007199254740993")}},
		{"W3 exponent", `{"jsonrpc":"2.0","id":1e3,"result":0}`, Message{ID: raw("1e3"), Result: raw("0")}},
		{"W3 negative", `{"jsonrpc":"2.0","id":-1,"result":0}`, Message{ID: raw("-1"), Result: raw("0")}},
		{"W3 float", `{"jsonrpc":"2.0","id":1.50,"result":0}`, Message{ID: raw("1.50"), Result: raw("0")}},
		{"no version", `{"id":1,"result":0}`, Message{ID: raw("1"), Result: raw("0"), Bare: true}},
		{"other version", `{"jsonrpc":"1.0","id":1,"result":0}`, Message{ID: raw("1"), Result: raw("0"), Bare: true}},
		{"unknown members", `{"Id":2,"x":{"id":3},"jsonrpc":"2.0","id":1,"result":0}`,
			Message{ID: raw("1"), Result: raw("0")}},
		{"W2 lone surrogate escape", `{"jsonrpc":"2.0","id":1,"result":"\ud800\u0000"}`,
			Message{ID: raw("1"), Result: raw(`"\ud800\u0000"`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode([]byte(c.line))
			if err != nil || got.Invalid != nil {
				t.Fatal(err, got.Invalid)
			}
			c.want.Raw = []byte(c.line)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// TestDecodeInvalid distinguishes invalid answers, which fail their call, from lines that are not JSON-RPC.
func TestDecodeInvalid(t *testing.T) {
	for _, c := range []struct {
		name, line string
		id         string // "" if the line is not JSON-RPC
		err        string
	}{
		{"H4 both", `{"jsonrpc":"2.0","id":1,"result":0,"error":{}}`, "1", "both"},
		{"H4 both, null result", `{"jsonrpc":"2.0","id":1,"result":null,"error":"x"}`, "1", "both"},
		{"null error alone", `{"jsonrpc":"2.0","id":1,"error":null}`, "1", "not an object"},
		{"error without an id that is none", `{"jsonrpc":"2.0","error":null}`, "", "not an object"},
		{"H4 neither", `{"jsonrpc":"2.0","id":1}`, "1", "neither"},
		{"error is no object", `{"jsonrpc":"2.0","id":1,"error":"x"}`, "1", "not an object"},
		{"W2 UTF-8 in the payload", "{\"id\":1,\"result\":\"a\xff\"}", "1", "UTF-8 at byte 19"},
		{"W2 UTF-8 before the id", "{\"result\":\"a\xff\",\"id\":1}", "", "UTF-8"},
		{"W2 UTF-8 in a key", "{\"id\":1,\"\xc0\x80\":1}", "1", "UTF-8"},
		{"W2 encoded surrogate", "{\"id\":1,\"result\":\"\xed\xa0\x80\"}", "1", "UTF-8"},
		{"W2 NUL", "{\"id\":1,\"result\":\"\x00\"}", "1", "control"},
		{"W2 duplicate id", `{"id":1,"id":1,"result":0}`, "", "duplicate"},
		{"T19 escaped duplicate", `{"id":1,"\u0069d":2,"result":0}`, "", "duplicate"},
		{"W2 duplicate result", `{"id":1,"result":0,"result":0}`, "1", "duplicate"},
		{"T19 duplicate method", `{"method":"a","method":"b"}`, "", "duplicate"},
		{"T19 duplicate params", `{"id":1,"method":"a","params":{},"params":{}}`, "", "duplicate"},
		{"W2 Id", `{"Id":1,"result":0}`, "", "neither id nor method"},
		{"T19 long s", `{"id":1,"re\u017fult":0}`, "1", "neither"},
		{"id object", `{"id":{},"result":0}`, "", "id is neither"},
		{"id bool", `{"id":true,"result":0}`, "", "id is neither"},
		{"method number", `{"id":1,"method":1}`, "", "not a name"},
		{"method empty", `{"id":1,"method":""}`, "", "not a name"},
		{"method long", `{"id":1,"method":"` + strings.Repeat("m", maxMethod) + `"}`, "", "not a name"},
		{"broken request", `{"id":1,"params":{"a":`, "", "end"},
		{"method and result", `{"id":1,"method":"m","result":0}`, "", "beside"},
		{"batch", `[{"id":1,"result":0}]`, "", "batch"},
		{"scalar", `"hello"`, "", "not a JSON object"},
		{"empty object", `{}`, "", "neither id nor method"},
		{"truncated", `{"id":1,"result":{"a":`, "1", "end"},
		{"W6 torn", `{"id":1,"resu{"id":2,"result":0}`, "1", "invalid JSON"},
		{"trailing", `{"id":1,"result":0}}`, "1", "more after"},
		{"trailing comma", `{"id":1,"result":[0,]}`, "1", "invalid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := Decode([]byte(c.line))
			if (err != nil) != (c.id == "") || string(m.ID) != c.id {
				t.Fatalf("id %s, err %v", m.ID, err)
			}
			if err = errors.Join(err, m.Invalid); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("err = %v, want %q", err, c.err)
			}
		})
	}
}

func TestDecodeDepth(t *testing.T) {
	nested := func(depth int) []byte { // including the frame itself
		return []byte(`{"id":1,"result":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}")
	}
	if m, err := Decode(nested(MaxDepth)); err != nil || m.Invalid != nil {
		t.Error("at the limit:", err, m.Invalid)
	}
	if m, err := Decode(nested(MaxDepth + 1)); err != nil || !errors.Is(m.Invalid, rawjson.ErrDepth) {
		t.Error("beyond the limit:", err, m.Invalid)
	}
}

// FuzzDecode compares with encoding/json: an accepted frame is valid there too, with the same meaning.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"a","params":[1,{"b":"\\\"\u00e9"}]}`))
	f.Add([]byte(`{"id":9007199254740993,"error":{"code":1},"\u0069d":-0.1E+2}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := Decode(line)
		if err != nil || m.Invalid != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(line, &members); err != nil || !utf8.Valid(line) {
			t.Fatalf("accepted %q: %v", line, err)
		}
		if members["result"] != nil && members["error"] != nil { // one of them is null
			members[map[bool]string{true: "error", false: "result"}[string(members["error"]) == "null"]] = nil
		}
		if members["id"] == nil && m.Error != nil {
			members["id"] = raw("null")
		}
		for name, got := range map[string][]byte{"id": m.ID, "params": m.Params, "result": m.Result, "error": m.Error} {
			if !bytes.Equal(got, members[name]) {
				t.Errorf("%s = %q, encoding/json %q", name, got, members[name])
			}
		}
		var method string
		_ = json.Unmarshal(members["method"], &method)
		if m.Method != method {
			t.Errorf("method = %q, encoding/json %q", m.Method, method)
		}
		checkRoundTrip(t, m)
	})
}

// checkRoundTrip encodes m and decodes it again.
func checkRoundTrip(t *testing.T, m Message) {
	frame, err := Append(nil, &m)
	if err != nil || bytes.ContainsAny(frame, "\r\n") {
		t.Fatalf("%q: %v", frame, err)
	}
	again, err := Decode(frame)
	if err != nil {
		t.Fatalf("%q: %v", frame, err)
	}
	for _, p := range []*Message{&m, &again} {
		p.Raw = nil
		p.Params, p.Result, p.Error = compact(p.Params), compact(p.Result), compact(p.Error)
	}
	if d := cmp.Diff(m, again); d != "" {
		t.Error(d)
	}
}

func compact(b []byte) []byte {
	var buf bytes.Buffer
	if json.Compact(&buf, b) != nil {
		return nil
	}
	return buf.Bytes()
}
