package tools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

func TestRiskOf(t *testing.T) {
	for annotations, want := range map[string]protocol.Risk{
		``: "write", `null`: "write", `[]`: "write", `"readOnlyHint"`: "write", `{}`: "write",
		`{"title":"x","openWorldHint":false}`: "write", `{"idempotentHint":true}`: "write",
		`{"readOnlyHint":true}`: "read", `{"readOnlyHint":true,"destructiveHint":false}`: "read",
		`{"readOnlyHint":true,"destructiveHint":null}`: "read", `{"readOnlyHint":"true"}`: "write",
		`{"readOnlyHint":1}`: "write", `{"ReadOnlyHint":true}`: "write", `{"readOnlyHint":false}`: "write",
		`{"destructiveHint":false}`: "write", `{"destructiveHint":true}`: "destroy",
		`{"destructiveHint":"no"}`: "destroy", `{"readOnlyHint":true,"destructiveHint":true}`: "destroy",
		`{"destructiveHint":true,"readOnlyHint":true,"destructiveHint":false}`: "destroy",
		`{"readOnlyHint":false,"readOnlyHint":true}`:                           "write",
		`{"readOnlyHint":true,"\u0064estructiveHint":true}`:                    "destroy",
	} {
		if got := tools.RiskOf(json.RawMessage(annotations)); got != want {
			t.Errorf("%s: %s, want %s", annotations, got, want)
		}
	}
}

// What was stated about a tool is in its descriptor; a tool about which nothing was stated keeps its bytes. A value
// that is no risk counts as the highest.
func TestStatedRisksAreAnnotated(t *testing.T) {
	const get = `{"name":"get","annotations":{"title":"Get","readOnlyHint":true,"x":1.0},"inputSchema":{"type":"object"}}`
	const put = `{"name":"put","inputSchema":{"type":"object"}}`
	stated := map[string]protocol.Risk{}
	catalog := func(number uint64, prev *tools.Catalog) *tools.Catalog {
		c, ds := tools.NewCatalog(number, []tools.Source{{
			Extension: "x",
			Tools:     []protocol.Tool{{Raw: json.RawMessage(get)}, {Raw: json.RawMessage(put)}},
			Risk: func(tool string, annotations json.RawMessage) protocol.Risk {
				if risk, ok := stated[tool]; ok {
					return risk
				}
				return tools.RiskOf(annotations)
			},
		}}, prev)
		if len(ds) > 0 {
			t.Fatal(ds)
		}
		return c
	}
	first := catalog(1, nil)
	for tool, want := range map[string]string{"get": "read " + get, "put": "write " + put} {
		if e, _ := first.LookupIn("x", tool); string(e.Risk)+" "+string(e.Own) != want {
			t.Errorf("%s: %s %s", tool, e.Risk, e.Own)
		}
	}
	stated["get"], stated["put"] = "destroy", "harmless"
	second := catalog(2, first)
	get2, _ := second.LookupIn("x", "get")
	put2, _ := second.LookupIn("x", "put")
	if get2.Risk != "destroy" || string(get2.Raw) != get || string(get2.Annotations) !=
		`{"title":"Get","readOnlyHint":true,"x":1.0}` ||
		!strings.Contains(string(get2.Own), `{"title":"Get","readOnlyHint":false,"x":1.0,"destructiveHint":true}`) ||
		!strings.Contains(string(get2.Descriptor), `"readOnlyHint":false,"x":1.0,"destructiveHint":true`) {
		t.Errorf("get: %s %s", get2.Risk, get2.Own)
	}
	if put2.Risk != "destroy" ||
		!strings.HasSuffix(string(put2.Own), `"annotations":{"destructiveHint":true,"readOnlyHint":false}}`) {
		t.Errorf("put: %s %s", put2.Risk, put2.Own)
	}
	if exported, _ := tools.Export(tools.MCP, []*tools.Entry{put2}); !strings.Contains(string(exported),
		`"annotations":{"destructiveHint":true,"readOnlyHint":false}`) {
		t.Errorf("the export is %s", exported)
	}
	third := catalog(3, second)
	if again, _ := third.LookupIn("x", "get"); again != get2 {
		t.Error("an entry of the same risk is made anew")
	}
}
