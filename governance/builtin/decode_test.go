package builtin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/rawjson"
)

// TestT19PoliciesRefuseWhatIsReadInTwoWays checks that policies reject arguments that a
// tool may read differently, and results that a client may read differently.
func TestT19PoliciesRefuseWhatIsReadInTwoWays(t *testing.T) {
	when := policy(t, "cel", map[string]any{"when": `has(arguments.path) && arguments.path.startsWith("/etc")`})
	seen := policy(t, "cel", map[string]any{"when": `has(result.path) && result.path.startsWith("/etc")`})
	schema := policy(t, "schema", map[string]any{"schemas": []any{map[string]any{
		"arguments": map[string]any{"properties": map[string]any{"path": map[string]any{"pattern": "^/home"}}},
		"result":    map[string]any{"type": "object"}}}})
	for text, ambiguous := range map[string][2]bool{ // ambiguous as arguments, as a result
		`{"path":"/etc/passwd","path":"/home"}`:                  {true, true},
		`{"path":"/etc/passwd","p\u0061th":"/home"}`:             {true, true},
		`{"path":"/home","Path":"/etc/passwd"}`:                  {true, false},
		`{"PATH":"/etc/passwd","Path":"/home"}`:                  {true, false},
		`{"\u017fize":"/etc/passwd","size":"/home"}`:             {true, false},
		`{"a":[{"b":{"c":1,"c":2}}]}`:                            {true, true},
		`{"path":"/home","a:b":"\":","c":[{}, {"d":""}]}`:        {false, false},
		`{"path":"/home"} {"path":"/etc"}`:                       {true, true},
		`{"camelCase":1,"snake_case":2,"Other":{"camelCase":3}}`: {false, false},
	} {
		x := governance.Exchange{Method: "tools/call", Extension: "files", Tool: "ext_files_read", ToChild: true, Request: json.RawMessage(`{"name":"read","arguments":` + text + `}`)}
		if strings.Contains(text, "} {") {
			x.Method, x.Tool, x.Request = "resources/read", "", json.RawMessage(text)
		}
		for _, p := range []governance.Policy{when, schema} {
			if _, err := p.Decide(t.Context(), governance.Request, &x); (err != nil) != ambiguous[0] && (p == when || x.Tool != "") {
				t.Errorf("%T of arguments %s: %v", p, text, err)
			}
		}
		x.Method, x.Tool, x.Response = "tools/call", "ext_files_read", json.RawMessage(text)
		for _, p := range []governance.Policy{seen, schema} {
			if _, err := p.Decide(t.Context(), governance.Response, &x); (err != nil) != ambiguous[1] {
				t.Errorf("%T of the result %s: %v", p, text, err)
			}
		}
	}
}

// FuzzColons compares the number of members with that of a full walk.
func FuzzColons(f *testing.F) {
	f.Add([]byte(`{"a":[{"b:":1,"b:":"\":"}],"c":{}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if rawjson.Check(text) != nil {
			t.Skip("no JSON")
		}
		if got, want := countColons(text), walk(t, text); got != want {
			t.Errorf("%d members in %s, counted %d", want, text, got)
		}
	})
}

func walk(t *testing.T, text []byte) (n int) {
	for _, value := range rawjson.Members(text) {
		n += 1 + walk(t, value)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err == nil {
		for _, element := range list {
			n += walk(t, element)
		}
	}
	return n
}
