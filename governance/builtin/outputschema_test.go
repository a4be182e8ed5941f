package builtin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/protocol"
)

// returned returns the result of a tool that does not match its output schema as fault says.
func returned(tool, fault string, promised bool) governance.Exchange {
	x := call(tool, `{}`)
	x.Response = json.RawMessage(`{"content":[]}`)
	x.Mismatch = func(json.RawMessage) (string, bool) { return fault, promised }
	return x
}

func TestOutputSchema(t *testing.T) {
	reported := func(p governance.Policy) (texts []string) {
		for _, d := range p.(builtin.Reporter).Diagnostics() {
			texts = append(texts, d.Extension+" "+d.Code+" "+d.Message)
		}
		return texts
	}
	failed := returned("ext_files_a", "x", true)
	failed.Failure, failed.Response = &protocol.Error{Kind: protocol.ExtensionError}, nil
	asked := returned("ext_files_a", "x", true)
	asked.Method = "resources/read"
	free := returned("ext_files_a", "x", true)
	free.Mismatch = nil
	for text, want := range map[string]string{
		`{}`:                       "deny output_mismatch: the result of ext_files_a breaks the tool's own output schema: /n: expected 1",
		`{"on_mismatch": "error"}`: "deny output_mismatch: the result of ext_files_a breaks the tool's own output schema: /n: expected 1",
		`{"on_mismatch": "warn"}`:  "allow",
	} {
		p := newPolicy(t, "output_schema", text)
		broken := returned("ext_files_a", "/n: expected 1", true)
		if got := ask(t, p, governance.Response, broken); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if got := ask(t, p, governance.Request, broken); got != "allow" {
			t.Errorf("%s: the request: %s", text, got)
		}
		for _, x := range []governance.Exchange{
			returned("ext_files_a", "", true), returned("ext_files_a", "", false), failed, asked, free,
		} {
			if got := ask(t, p, governance.Response, x); got != "allow" {
				t.Errorf("%s: %+v: %s", text, x, got)
			}
		}
		if got := reported(p); len(got) != 1 || got[0] != "files output_mismatch 1 of 2 results of ext_files_a "+
			"broke the tool's output schema, the last one: /n: expected 1" {
			t.Errorf("%s reports %q", text, got)
		}
		for i := range 12_000 {
			ask(t, p, governance.Response, returned(fmt.Sprintf("ext_files_%d", i), "y", true))
		}
		if got := reported(p); len(got) != 20 {
			t.Errorf("%s reports %d tools", text, len(got))
		}
	}
	for _, s := range []governance.Spec{
		spec(t, "output_schema", `{"on_mismatch": "log"}`),
		{Name: "p", Builtin: "output_schema", Category: governance.Content},
	} {
		if _, err := builtin.New(s); err == nil || !strings.Contains(err.Error(), "error, warn") &&
			!strings.Contains(err.Error(), "its category is validation") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
