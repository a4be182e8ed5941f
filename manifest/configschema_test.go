package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigSchemaIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"no JSON":         {`{`, "unexpected EOF"},
		"another file":    {`{"$ref": "https://example.com/x.json"}`, "nothing is fetched"},
		"the whole":       {`{"properties": {"a": {"$ref": "#"}}}`, "$ref is #/$defs/NAME"},
		"an unknown name": {`{"$ref": "#/$defs/x"}`, "$ref is #/$defs/NAME"},
		"a circle":        {`{"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}}}`, "refers to itself"},
		"a dynamic one":   {`{"$dynamicRef": "#x"}`, "not supported here"},
		"many parts":      {doublingSchema(20), "more than 10000 parts"},
		"a wrong type":    {`{"type": 1}`, "jsonschema"},
	} {
		if _, err := compileSchema(json.RawMessage(c.schema)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// doublingSchema defines n schemas, each of which holds the next one twice.
func doublingSchema(n int) string {
	var b strings.Builder
	b.WriteString(`{"items": {"$ref": "#/$defs/d0"}, "$defs": {`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}, `, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d": {"type": "integer"}}}`, n)
	return b.String()
}

func TestConfigMatchesItsSchema(t *testing.T) {
	s, err := compileSchema(json.RawMessage(
		`{"required": ["key"], "properties": {"key": {"type": "string"}, "list": {"items": {"type": "integer"}},
		"one": {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config  string
		partial bool
		want    []string
	}{
		{`{"key": "k"}`, false, nil},
		{`{}`, false, []string{"config config: missing property 'key'"}},
		{`{"one": {}}`, true, nil},
		{`{"key": "k", "one": {}}`, false, []string{"config.one config.one: 'oneOf' failed, none matched"}},
		{`{"list": [1, "x"], "key": 1}`, true,
			[]string{
				"config.key config.key: got number, want string",
				"config.list[1] config.list.1: got string, want integer",
			}},
	} {
		got := map[string]bool{}
		for _, f := range s.check(json.RawMessage(c.config), c.partial) {
			got[f.path()+" "+f.Error()] = true
		}
		want := map[string]bool{}
		for _, w := range c.want {
			want[w] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.config, diff)
		}
	}
}

func TestConfigSchemaBoundsWork(t *testing.T) {
	s, err := compileSchema(json.RawMessage(doublingSchema(9)))
	if err != nil {
		t.Fatal(err)
	}
	if !s.affords(json.RawMessage(`[1]`)) || s.affords(json.RawMessage("["+strings.Repeat("1,", 10_000)+"1]")) {
		t.Error("the bound is elsewhere")
	}
}
