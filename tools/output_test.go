package tools_test

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func TestMismatch(t *testing.T) {
	entry := func(output string) *tools.Entry {
		t.Helper()
		raw := json.RawMessage(`{"name":"get"` + output + `}`)
		c, ds := tools.NewCatalog(1, []tools.Source{{Extension: "x", Tools: []protocol.Tool{{Raw: raw}}}}, nil)
		if len(ds) > 0 {
			t.Fatal(ds)
		}
		e, _ := c.LookupIn("x", "get")
		return e
	}
	if entry("").Mismatch() != nil {
		t.Error("a tool without an output schema promises something")
	}
	check := entry(`,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"},"list":{"type":"array",` +
		`"items":{"enum":["a","b"]}}},"required":["n"],"additionalProperties":false}`).Mismatch()
	for result, want := range map[string]string{
		`{"content":[],"structuredContent":{"n":12345678901234567890}}`:      "",
		`{"resultType":"complete","structuredContent":{"n":1,"list":["a"]}}`: "",
		`{"content":[]}`:                                     "structuredContent is missing",
		`{"structuredContent":{"n":"secret"}}`:               "/n: expected integer",
		`{"structuredContent":{"n":1,"list":["secret"]}}`:    "/list/0: expected one of the allowed values",
		`{"structuredContent":[]}`:                           "structuredContent: expected object",
		`{"content":[],"isError":true}`:                      "nothing",
		`{"resultType":"input_required","inputRequests":{}}`: "nothing",
		`{"task":{"taskId":"1"}}`:                            "nothing",
		`{"task":{"taskId":"1"},"content":[]}`:               "structuredContent is missing",
	} {
		fault, promised := check(json.RawMessage(result))
		if !promised {
			fault = "nothing"
		}
		if fault != want {
			t.Errorf("%s: %q, want %q", result, fault, want)
		}
	}
	invalid := entry(`,"outputSchema":{"type":"object","$ref":"#/nowhere"}`).Mismatch()
	if fault, promised := invalid(json.RawMessage(`{"structuredContent":{}}`)); fault == "" || !promised {
		t.Error("a schema that cannot be used is kept by everything")
	}
}
