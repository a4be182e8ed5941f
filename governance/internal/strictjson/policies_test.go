package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/celpolicy"
)

// Policies reject arguments that a tool may read differently, and results that a client may read
// differently.
func TestPoliciesRefuseAmbiguousJSON(t *testing.T) {
	when := policy(t, celpolicy.New, "cel",
		map[string]any{"when": `has(arguments.path) && arguments.path.startsWith("/etc")`})
	seen := policy(t, celpolicy.New, "cel",
		map[string]any{"when": `has(result.path) && result.path.startsWith("/etc")`})
	schema := policy(t, builtin.New, "schema", map[string]any{"schemas": []any{map[string]any{
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
		x := governance.Exchange{
			Method:    "tools/call",
			Extension: "files",
			Tool:      "ext_files_read",
			ToChild:   true,
			Request:   json.RawMessage(`{"name":"read","arguments":` + text + `}`),
		}
		if strings.Contains(text, "} {") {
			x.Method, x.Tool, x.Request = "resources/read", "", json.RawMessage(text)
		}
		for _, p := range []governance.Policy{when, schema} {
			if _, err := p.Decide(t.Context(), governance.Request, &x); (err != nil) != ambiguous[0] &&
				(p == when || x.Tool != "") {
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

// policy is a policy of both flows as files state it.
func policy(t *testing.T, create func(governance.Spec) (governance.Policy, error), name string, config map[string]any,
) governance.Policy {
	t.Helper()
	p, err := create(governance.Spec{Name: name, Builtin: name, Category: governance.Content, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
