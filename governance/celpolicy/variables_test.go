package celpolicy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/celpolicy"
	"github.com/exthost/exthost/protocol"
)

// A variable that cannot be decoded is an error, although the next one can be.
func TestErrorOfOneVariable(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 2<<20) + `secret"}`
	for name, arguments := range map[string]string{"too long": long, "ambiguous": `{"a":"secret","a":"b"}`} {
		for _, when := range []string{
			`arguments.?a.orValue("").matches("secret") || result.?isError.orValue(false)`,
			`(has(arguments.a) && arguments.a.matches("secret")) || result.?isError.orValue(false)`,
		} {
			p, err := celpolicy.New(governance.Spec{Name: "p", Config: map[string]any{"action": "deny", "when": when}})
			if err != nil {
				t.Fatal(err)
			}
			x := &governance.Exchange{
				Method:   protocol.MethodToolsCall,
				ToChild:  true,
				Tool:     "t",
				Request:  json.RawMessage(`{"name":"t","arguments":` + arguments + `}`),
				Response: json.RawMessage(`{"content":[]}`),
			}
			if d, err := p.Decide(t.Context(), governance.Response, x); err == nil && d.Action != governance.Deny {
				t.Errorf("%s, %s: it decided %+v", name, when, d)
			}
		}
	}
}
