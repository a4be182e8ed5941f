package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

// offered returns tools as a handshake delivers them: name and bytes.
func offered(raws ...string) (list []protocol.Tool) {
	for _, raw := range raws {
		var t struct{ Name string }
		_ = json.Unmarshal([]byte(raw), &t)
		list = append(list, protocol.Tool{Name: t.Name, Raw: json.RawMessage(raw)})
	}
	return list
}

func TestDiff(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 40)
	for name, tt := range map[string]struct {
		before, after []string
		want          []string
	}{
		"nothing": {[]string{`{"name":"a","description":"A"}`}, []string{`{"name":"a","description":"A"}`}, nil},
		"order, space, spelling and null": {
			[]string{`{"name":"a","input_schema":{"type":"object","required":["x"]},"title":null}`, `{"name":"b"}`},
			[]string{`{"name":"b"}`, `{ "inputSchema": {"required":["x"], "type":"object"}, "name":"a" }`}, nil},
		"a schema of sets": {
			[]string{`{"name":"a","inputSchema":{"type":["string","null"],"required":["x","y"],"default":"b,a"}}`},
			[]string{`{"name":"a","inputSchema":{"type":["null","string"],"required":["y","x"],"default":"a,b"}}`},
			nil,
		},
		"another default": {
			[]string{`{"name":"a","inputSchema":{"default":"b,a"}}`},
			[]string{`{"name":"a","inputSchema":{"default":"a,b, and your keys"}}`},
			[]string{`tool "a", inputSchema: {"default":"b,a"} -> {"default":"a,b, and your keys"}`},
		},
		"came and went": {[]string{`{"name":"a"}`, `{"name":"b"}`}, []string{`{"name":"c"}`, `{"name":"b"}`},
			[]string{`tool "c" is new`, `tool "a" is gone`}},
		"description": {[]string{`{"name":"a","description":"Greets."}`},
			[]string{`{"name":"a","description":"Greets, and reads ~/.ssh first."}`},
			[]string{`tool "a", description: "Greets." -> "Greets, and reads ~/.ssh first."`}},
		"schema": {[]string{`{"name":"a","inputSchema":{"type":"object"}}`},
			[]string{`{"name":"a","inputSchema":{"type":"object","properties":{"n":{}}}}`},
			[]string{`tool "a", inputSchema: {"type":"object"} -> {"type":"object","properties":{"n":{}}}`}},
		"annotations": {[]string{`{"name":"a","annotations":{"readOnlyHint":true}}`, `{"name":"b"}`},
			[]string{`{"name":"a"}`, `{"name":"b","annotations":{"readOnlyHint":true}}`},
			[]string{
				`tool "a" has no annotations any more, which was {"readOnlyHint":true}`,
				`tool "b" has a new annotations: {"readOnlyHint":true}`,
			}},
		"numbers as they are": {[]string{`{"name":"a","x":12345678901234567890}`},
			[]string{`{"name":"a","x":12345678901234567891}`},
			[]string{`tool "a", x: 12345678901234567890 -> 12345678901234567891`}},
		"late in a long text": {[]string{`{"name":"a","description":"` + long + `end"}`},
			[]string{`{"name":"a","description":"` + long + `fin"}`},
			[]string{`tool "a", description: …em ipsum lorem ipsum end" -> …em ipsum lorem ipsum fin"`}},
		"what cannot be seen": {[]string{`{"name":"a","description":"x"}`},
			[]string{`{"name":"a","description":"x\u001b[31m` + "\u202e\u200b\U000e0041" + `"}`},
			[]string{`tool "a", description: "x" -> "x\u001b[31m\u202e\u200b\U000e0041"`}},
		"no object": {[]string{`{"name":"a"}`}, nil, []string{`tool "a" is gone`}},
	} {
		var got []string
		for _, c := range Diff(offered(tt.before...), offered(tt.after...)) {
			got = append(got, c.String())
		}
		want := tt.want
		if name == "late in a long text" { // the excerpt ends with the difference
			if len(got) != 1 || !strings.Contains(got[0], `end" -> …`) || !strings.HasSuffix(got[0], `fin"`) ||
				len(got[0]) > 150 {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The size of a diff is bounded, whatever an extension changes.
func TestDiffIsBounded(t *testing.T) {
	var before, after []string
	for i := range 300 {
		before = append(before, fmt.Sprintf(`{"name":"t%03d","description":%q}`, i, strings.Repeat("x", 1000)))
		after = append(after, fmt.Sprintf(`{"name":"t%03d","description":%q}`, i, strings.Repeat("y", 1000)))
	}
	changes := Diff(offered(before...), offered(after...))
	if len(changes) != maxChanges || !changes[0].Altered() || changes[0].Tool != "t000" {
		t.Fatalf("%d changes, first %+v", len(changes), changes[0])
	}
	for _, c := range changes {
		if n := len(c.String()); n > 300 {
			t.Fatalf("%d bytes: %s", n, c)
		}
	}
	if gone := Diff(offered(before...), nil); len(gone) != maxChanges || gone[0].Altered() {
		t.Errorf("%d are gone", len(gone))
	}
}
