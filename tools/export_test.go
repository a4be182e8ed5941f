package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/protocol"
)

// The schema keeps its bytes in every format.
func TestExportKeepsSchemas(t *testing.T) {
	const schema = `{"type":"object","properties":{"b":{"default":12345678901234567890},"a":{"title":"日本"}}}`
	e := one(t, `{"name":"t","description":"d <b>","inputSchema":`+schema+`,"execution":{"x":1.0}}`)
	for format, want := range map[Format]string{
		Anthropic: `[{"name":"ext_x_t","description":"[ext:x] d <b>","input_schema":` + schema + `}]`,
		OpenAI: `[{"type":"function","name":"ext_x_t","description":"[ext:x] d <b>","parameters":` + schema +
			`,"strict":false}]`,
		OpenAIChat: `[{"type":"function","function":{"name":"ext_x_t","description":"[ext:x] d <b>","parameters":` +
			schema + `}}]`,
		Gemini: `{"functionDeclarations":[{"name":"ext_x_t","description":"[ext:x] d <b>","parametersJsonSchema":` +
			schema + `}]}`,
		MCP: `{"tools":[{"name":"ext_x_t","description":"[ext:x] d <b>","inputSchema":` + schema +
			`,"execution":{"x":1.0}}]}`,
	} {
		out, omitted := Export(format, []*Entry{e})
		if diff := cmp.Diff(want, string(out)); diff != "" || omitted != nil {
			t.Errorf("%s (-want +got), omitted %v:\n%s", format, omitted, diff)
		}
	}
	if len(vendors) != len(Formats()) {
		t.Errorf("%d vendors, %d formats", len(vendors), len(Formats()))
	}
}

// The vendor's search comes first, and all tools but the kept ones are marked.
func TestExportDeferred(t *testing.T) {
	c, _ := NewCatalog(1, []Source{
		{Tools: []protocol.Tool{raw(`{"name":"host_tool"}`)}},
		{Extension: "x", Tools: []protocol.Tool{raw(`{"name":"a"}`), raw(`{"name":"b"}`)}},
	}, nil)
	keep := func(e *Entry) bool { return e.Tool == "b" }
	for format, want := range map[Format]string{
		Anthropic: `[{"type":"tool_search_tool_bm25_20251119","name":"tool_search_tool_bm25"},` +
			`{"name":"ext_x_a","description":"[ext:x]","input_schema":{"type":"object"},"defer_loading":true},` +
			`{"name":"ext_x_b","description":"[ext:x]","input_schema":{"type":"object"}},{"name":"host_tool","description":"","input_schema":{"type":"object"}}]`,
		OpenAI: `[{"type":"tool_search"},` +
			`{"type":"function","name":"ext_x_a","description":"[ext:x]","parameters":{"type":"object","properties":{}},"strict":false,"defer_loading":true},` +
			`{"type":"function","name":"ext_x_b","description":"[ext:x]","parameters":{"type":"object","properties":{}},"strict":false},` +
			`{"type":"function","name":"host_tool","description":"","parameters":{"type":"object","properties":{}},"strict":false}]`,
	} {
		out, omitted, err := ExportDeferred(format, c.Entries(), keep)
		if diff := cmp.Diff(want, string(out)); diff != "" || omitted != nil || err != nil {
			t.Errorf("%s (-want +got), omitted %v, %v:\n%s", format, omitted, err, diff)
		}
	}
	for _, format := range []Format{OpenAIChat, Gemini, MCP, "cohere"} {
		if _, _, err := ExportDeferred(format, c.Entries(), nil); protocol.KindOf(err) != protocol.InvalidArguments {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// A schema that a vendor refuses is rewritten or left out.
func TestRefusedSchemasAreRewritten(t *testing.T) {
	for _, test := range []struct {
		name   string
		format Format
		schema string
		want   string // the schema in the export, or part of the omission's reason
	}{
		{"a top-level choice", Anthropic, `{"type":"object","anyOf":[{"properties":{"a":{}}},{"required":["b"]}]}`,
			"no anyOf at the top level"},
		{"a top-level choice", MCP, `{"type":"object","anyOf":[{"properties":{"a":{}}},{"required":["b"]}]}`,
			`{"type":"object","anyOf":[{"properties":{"a":{}}},{"required":["b"]}]}`},
		{"a top-level choice", Gemini, `{"type":"object","anyOf":[{"required":["b"]}]}`,
			`{"type":"object","anyOf":[{"required":["b"]}]}`},
		{"a nested choice", Anthropic, `{"type":"object","properties":{"a":{"anyOf":[{},{}]}}}`,
			`{"type":"object","properties":{"a":{"anyOf":[{},{}]}}}`},
		{"required one of", Anthropic,
			`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{},"b":{}}}`},
		{"all of plain objects", OpenAI,
			`{"type":"object","properties":{"a":{}},"required":["a"],"allOf":[{"properties":{"b":{"x":1.0}},"required":["b","a"]},{"type":"object"}]}`,
			`{"type":"object","properties":{"a":{},"b":{"x":1.0}},"required":["a","b"]}`},
		{"all of, two definitions", OpenAI,
			`{"type":"object","properties":{"a":{}},"allOf":[{"properties":{"a":{"type":"string"}}}]}`,
			"no allOf at the top level"},
		{"all of, closed", Anthropic,
			`{"type":"object","additionalProperties":false,"allOf":[{"properties":{"a":{}}}]}`,
			"no allOf at the top level"},
		{"all of, not plain", Anthropic, `{"type":"object","allOf":[{"minProperties":1}]}`,
			"no allOf at the top level"},
		{"all of, no list", OpenAI, `{"type":"object","allOf":5}`, "no allOf at the top level"},
		{"any of, no list", Anthropic, `{"type":"object","anyOf":true}`, "no anyOf at the top level"},
		{"all of, never", Anthropic, `{"type":"object","allOf":[false]}`, "no allOf at the top level"},
		{"const", OpenAI, `{"type":"object","const":{}}`, "no const at the top level"},
		{"const", Anthropic, `{"type":"object","const":{}}`, `{"type":"object","const":{}}`},
		{"not", OpenAIChat, `{"type":"object","not":{}}`, "no not at the top level"},
		{"a property key", Anthropic, `{"type":"object","properties":{"a b":{}}}`, `property "a b"`},
		{"a long property key", Anthropic, `{"type":"object","properties":{"` + strings.Repeat("k", 65) + `":{}}}`,
			"1 to 64 characters"},
		{"a property key", OpenAI, `{"type":"object","properties":{"a b":{}}}`,
			`{"type":"object","properties":{"a b":{}}}`},
		{"no properties", OpenAI, `{"type":"object"}`, `{"type":"object","properties":{}}`},
		{"no properties", Anthropic, `{"type":"object"}`, `{"type":"object"}`},
		{"an array without items", OpenAI,
			`{"type":"object","properties":{"a":{"type":["array","null"]},"b":{"anyOf":[{"type":"array"}]}}}`,
			`{"type":"object","properties":{"a":{"type":["array","null"],"items":{}},"b":{"anyOf":[{"type":"array","items":{}}]}}}`},
		{"a property called items", OpenAI,
			`{"type":"object","properties":{"items":{"type":"array"},"type":{"enum":[{"type":"array"}]}}}`,
			`{"type":"object","properties":{"items":{"type":"array","items":{}},"type":{"enum":[{"type":"array"}]}}}`},
		{"an old tuple", OpenAI,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","items":[{"const":1.0}],"additionalItems":false}}}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","prefixItems":[{"const":1.0}],"items":false}}}`},
		{"references", Gemini, `{"$schema":"x","type":"object","properties":{"a":{"$ref":"#/$defs/p%20q","description":"here"},"$ref":{"type":"array","items":{"$ref":"#/$defs/r"}}},"$defs":{"p q":{"type":"string","description":"there"},"r":{"$ref":"#/$defs/p q"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","description":"here"},"$ref":{"type":"array","items":{"type":"string","description":"there"}}}}`},
		{"a reference at the top", Gemini,
			`{"type":"object","$ref":"#/definitions/a","definitions":{"a":{"type":"object","properties":{}}}}`,
			`{"type":"object","properties":{}}`},
		{"recursion", Gemini, `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"properties":{"x":{"$ref":"#/$defs/n"}}}}}`, "refers to itself"},
		{"recursion", Anthropic, `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
			`{"type":"object","properties":{"a":{"$ref":"#"}}}`},
		{"beside a reference", Gemini,
			`{"type":"object","properties":{"a":{"$ref":"#/$defs/n","minLength":1}},"$defs":{"n":{"type":"string"}}}`,
			"minLength stands beside one"},
		{"doubling references", Gemini, inlineBomb(40), "too large without them"},
		{"an unknown format", "cohere", `{"type":"object"}`, `there is no format "cohere"`},
	} {
		t.Run(string(test.format)+"/"+test.name, func(t *testing.T) {
			c, _ := NewCatalog(1,
				[]Source{
					{
						Extension: "x",
						Tools: []protocol.Tool{
							raw(`{"name":"t","inputSchema":` + test.schema + `}`),
							raw(`{"name":"zz"}`),
						},
					},
				}, nil)
			out, omitted := Export(test.format, c.Entries())
			if !json.Valid(out) {
				t.Fatalf("not JSON: %s", out)
			}
			if strings.HasPrefix(test.want, "{") {
				if len(omitted) != 0 || !strings.Contains(string(out), ":"+test.want) {
					t.Errorf("omitted %v, export\n%s\nwant the schema\n%s", omitted, out, test.want)
				}
			} else if len(omitted) == 0 || omitted[0].Tool != "ext_x_t" ||
				!strings.Contains(omitted[0].Reason, test.want) {
				t.Errorf("omitted %v, want %q; export\n%s", omitted, test.want, out)
			}
		})
	}
}

// inlineBomb returns a schema that doubles in size with each inlined reference.
func inlineBomb(n int) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a0"}},"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"properties":{"l":{"$ref":"#/$defs/a%d"},"r":{"$ref":"#/$defs/a%[2]d"}}},`, i, i+1)
	}
	fmt.Fprintf(&b, `"a%d":{}}}`, n)
	return b.String()
}

func TestExportSaysWhatItMoved(t *testing.T) {
	e := one(t, `{"name":"t","description":"d","inputSchema":{"type":"object","oneOf":[{"required":["a","b"]},{"required":["c"]}]}}`)
	out, _ := Export(Anthropic, []*Entry{e})
	if want := `"[ext:x] d (Required: exactly one of: a and b; c.)"`; !strings.Contains(string(out), want) {
		t.Errorf("%s does not hold %s", out, want)
	}
}

func BenchmarkExport(b *testing.B) {
	var tools []protocol.Tool
	for i := range 100 {
		tools = append(tools, raw(fmt.Sprintf(`{"name":"t%d","inputSchema":%s}`, i, forecast)))
	}
	c, _ := NewCatalog(1, []Source{{Extension: "x", Tools: tools}}, nil)
	for _, f := range Formats() {
		b.Run(string(f), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Export(f, c.Entries())
			}
		})
	}
}
