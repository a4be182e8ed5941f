package rawjson

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"
)

func TestEditKeepsTheRest(t *testing.T) {
	const obj = `{"n":12345678901234567890, "s":"ü\u00fc\"}{", "o" : {"a":[1,{"b":"]"}]},"n2":1e3}`
	tests := []struct {
		name   string
		obj    string
		values map[string]json.RawMessage
		want   string
	}{
		{"nothing", obj, nil, `{"n":12345678901234567890,"s":"ü\u00fc\"}{","o" : {"a":[1,{"b":"]"}]},"n2":1e3}`},
		{"replace", obj, map[string]json.RawMessage{"s": []byte(`0`)},
			`{"n":12345678901234567890,"s":0,"o" : {"a":[1,{"b":"]"}]},"n2":1e3}`},
		{"delete first", obj, map[string]json.RawMessage{"n": nil},
			`{"s":"ü\u00fc\"}{","o" : {"a":[1,{"b":"]"}]},"n2":1e3}`},
		{"append sorted", `{}`, map[string]json.RawMessage{"b": []byte(`2`), "a": []byte(`1`)}, `{"a":1,"b":2}`},
		{"repeated key", `{"a":1,"b":2,"a":3}`, map[string]json.RawMessage{"a": []byte(`4`)}, `{"a":4,"b":2}`},
		{"escaped key", `{"\u005fmeta":1,"b":2}`, map[string]json.RawMessage{"_meta": nil}, `{"b":2}`},
		{"no object", `null`, map[string]json.RawMessage{"a": []byte(`1`)}, `{"a":1}`},
		{"truncated", `{"`, map[string]json.RawMessage{"a": []byte(`1`)}, `{"a":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(Edit(json.RawMessage(tt.obj), tt.values)); got != tt.want {
				t.Errorf("Edit(%s)\n got %s\nwant %s", tt.obj, got, tt.want)
			}
		})
	}
}

func TestGet(t *testing.T) {
	obj := json.RawMessage(` { "a" : [1, 2] , "b\n":"x", "a":true } `)
	for key, want := range map[string]string{"a": "true", "b\n": `"x"`, "c": ""} {
		if got := string(Get(obj, key)); got != want {
			t.Errorf("Get(%q) = %q, want %q", key, got, want)
		}
	}
	if Get(json.RawMessage(`[{"a":1}]`), "a") != nil {
		t.Error("an array has members")
	}
}

// Members agrees with encoding/json on valid objects.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{}`,
		`{"a":1}`,
		`{"a":{"b":["\\\""]},"c":"}"}`,
		`[1]`,
		`{"\ud83d":-1.5e+3 , "x" : null}`,
		`{"a":"]}\\\\","b":["{\\"[",{"c":"\\\\\\""}] , "d":""}`,
		`"`,
		`{"a"`,
		`{"a":"\\"`,
		`{"a":["b}`,
		`{"a":}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := map[string]json.RawMessage{}
		for k, v := range Members(data) {
			got[k] = v
		}
		var want map[string]json.RawMessage
		if !utf8.Valid(data) || json.Unmarshal(data, &want) != nil {
			return // not an object: only check that there is no panic
		}
		if want == nil {
			want = map[string]json.RawMessage{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Members(%q) = %q, want %q", data, got, want)
		}
	})
}
