package tools

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
)

func TestDescriptorIsByteExact(t *testing.T) {
	for _, test := range []struct{ name, sent, registered, own string }{
		{"unknown fields, order, number text, non-ASCII, escapes",
			`{"zeta":12345678901234567890,"name":"t","execution":{"taskSupport":"optional"},"inputSchema":{"properties":{"b":{"default":1.50,"title":"日本 \u00e9"},"a":{}},"type":"object"},"description":"d","_meta":{"n":1e2}}`,
			`{"zeta":12345678901234567890,"name":"ext_x_t","execution":{"taskSupport":"optional"},"inputSchema":{"properties":{"b":{"default":1.50,"title":"日本 \u00e9"},"a":{}},"type":"object"},"description":"[ext:x] d","_meta":{"n":1e2}}`,
			`{"zeta":12345678901234567890,"name":"t","execution":{"taskSupport":"optional"},"inputSchema":{"properties":{"b":{"default":1.50,"title":"日本 \u00e9"},"a":{}},"type":"object"},"description":"d","_meta":{"n":1e2}}`},
		{"spelled the native way",
			`{"name":"t","input_schema":{"type":"object"},"output_schema":{"type" : "object"},"annotations":{"readOnlyHint":true}}`,
			`{"name":"ext_x_t","inputSchema":{"type":"object"},"outputSchema":{"type" : "object"},"annotations":{"readOnlyHint":true},"description":"[ext:x]"}`,
			`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type" : "object"},"annotations":{"readOnlyHint":true}}`},
		{"nothing but a name",
			`{"name":"t"}`,
			`{"name":"ext_x_t","description":"[ext:x]","inputSchema":{"type":"object"}}`,
			`{"name":"t","inputSchema":{"type":"object"}}`},
		{"null means absent",
			`{"name":"t","title":null,"description":null,"inputSchema":null,"outputSchema":null,"annotations":null,"x":null}`,
			`{"name":"ext_x_t","x":null,"description":"[ext:x]","inputSchema":{"type":"object"}}`,
			`{"name":"t","x":null,"inputSchema":{"type":"object"}}`},
		{"a schema without a type",
			`{"name":"t","inputSchema":{"properties":{"a":{"const":1.0}}}}`,
			`{"name":"ext_x_t","inputSchema":{"type":"object","properties":{"a":{"const":1.0}}},"description":"[ext:x]"}`,
			`{"name":"t","inputSchema":{"type":"object","properties":{"a":{"const":1.0}}}}`},
		{"a schema of several types",
			`{"name":"t","inputSchema":{"a":1,"type":["object","null"]}}`,
			`{"name":"ext_x_t","inputSchema":{"a":1,"type":"object"},"description":"[ext:x]"}`,
			`{"name":"t","inputSchema":{"a":1,"type":"object"}}`},
		{"newlines cannot stay",
			"{\n\"name\": \"t\",\n\"inputSchema\": {\n \"type\": \"object\",\n \"default\": {\"n\": 1.0}\n}\n}",
			`{"name":"ext_x_t","inputSchema":{"type":"object","default":{"n":1.0}},"description":"[ext:x]"}`,
			`{"name":"t","inputSchema":{"type":"object","default":{"n":1.0}}}`},
		{"T4: what cannot be seen is taken out of the description",
			`{"name":"t","description":"a\u0000\u200b\u202eb\ufeff\udb40\udc41<c>\n\td\u00ad"}`,
			`{"name":"ext_x_t","description":"[ext:x] ab<c>\n\td","inputSchema":{"type":"object"}}`,
			`{"name":"t","description":"ab<c>\n\td","inputSchema":{"type":"object"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := one(t, test.sent)
			if diff := cmp.Diff(test.registered, string(e.Descriptor)); diff != "" {
				t.Errorf("Descriptor (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.own, string(e.Own)); diff != "" {
				t.Errorf("Own (-want +got):\n%s", diff)
			}
			if string(e.Raw) != test.sent {
				t.Errorf("Raw = %s, want the bytes that were sent", e.Raw)
			}
		})
	}
}

func TestDeclaredToolNeedsNoRaw(t *testing.T) {
	c, ds := NewCatalog(1, []Source{
		{
			Extension: "x",
			Tools: []protocol.Tool{
				{Name: "t", Description: "d", InputSchema: json.RawMessage(`{"type":"object","required":["q"]}`)},
			},
		},
	}, nil)
	want := `{"name":"ext_x_t","description":"[ext:x] d","inputSchema":{"type":"object","required":["q"]}}`
	if len(ds) != 0 || string(c.Entries()[0].Descriptor) != want {
		t.Errorf("Descriptor = %s, diagnostics %v", c.Entries()[0].Descriptor, ds)
	}
}

func TestParseDescriptorRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		``:                             "not valid JSON",
		`[]`:                           "expected an object, got an array",
		`{}`:                           "no name",
		`{"name":""}`:                  "no name",
		`{"name":3}`:                   "name must be a string",
		`{"name":"a","name":"b"}`:      `duplicate key "name"`,
		`{"name":"a","description":1}`: `tool "a": description must be a string`,
		`{"name":"a","inputSchema":{},"input_schema":{}}`: "both spellings",
		`{"name":"a","inputSchema":[]}`:                   "expected an object",
		`{"name":"a","inputSchema":false}`:                "expected an object",
		`{"name":"a","inputSchema":{"type":"string"}}`:    `type must be "object", not "string"`,
		`{"name":"a","inputSchema":{"type":["null"]}}`:    `type must be "object"`,
		`{"name":"` + strings.Repeat("a", MaxDescriptor):  "bytes, at most",
	} {
		_, err := ParseDescriptor(json.RawMessage(raw))
		if err == nil || !strings.Contains(err.Error(), want) || protocol.KindOf(err) != protocol.HandshakeInvalid {
			t.Errorf("ParseDescriptor(%s) = %v, want %q of kind handshake_invalid", display.Cut(raw, 80), err, want)
		}
	}
}

// nested returns a schema with levels nested not keywords.
func nested(levels int) string {
	return strings.Repeat(`{"not":`, levels) + "{}" + strings.Repeat("}", levels)
}

func TestDescriptorsOverALimitAreDropped(t *testing.T) {
	object := func(body string) protocol.Tool {
		return protocol.Tool{Name: "t", InputSchema: json.RawMessage(body)}
	}
	list := func(n int) string { return `{"enum":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}` }
	pad := func(n int) string { return `{"a":"` + strings.Repeat("v", n-len(`{"a":""}`)) + `"}` }
	for _, test := range []struct {
		name      string
		at, above protocol.Tool
		code      string
	}{
		{"name", protocol.Tool{Name: strings.Repeat("n", MaxToolName)},
			protocol.Tool{Name: strings.Repeat("n", MaxToolName+1)}, "tool_name_invalid"},
		{"no name", protocol.Tool{Name: "n"}, protocol.Tool{}, "tool_name_invalid"},
		{"name characters", protocol.Tool{Name: "a.b-C_9"}, protocol.Tool{Name: "a b"}, "tool_name_charset"},
		{"invisible name", protocol.Tool{Name: "a"}, protocol.Tool{Name: "a\u200b"}, "tool_name_invalid"},
		{"name in UTF-8", protocol.Tool{Name: "a"}, protocol.Tool{Name: "a\xff"}, "tool_name_invalid"},
		{"description", protocol.Tool{Name: "t", Description: strings.Repeat("d", MaxDescription)},
			protocol.Tool{Name: "t", Description: strings.Repeat("d", MaxDescription+1)}, "tool_description_too_long"},
		{"schema bytes", object(pad(MaxSchema)), object(pad(MaxSchema + 1)), "tool_schema_invalid"},
		{"schema nodes", object(list(schema.MaxNodes - 2)), object(list(schema.MaxNodes - 1)), "tool_schema_invalid"},
		{"schema depth", object(nested(schema.MaxDepth)), object(nested(schema.MaxDepth + 1)), "tool_schema_invalid"},
		{"duplicate key", object(`{"a":1,"A":1}`), object(`{"a":1,"\u0061":1}`), "tool_schema_invalid"},
		{"number", object(`{"maximum":1e1000}`), object(`{"maximum":1e1001}`), "tool_schema_invalid"},
		{"output schema", protocol.Tool{Name: "t", OutputSchema: json.RawMessage(nested(schema.MaxDepth))},
			protocol.Tool{Name: "t", OutputSchema: json.RawMessage(nested(schema.MaxDepth + 1))},
			"tool_schema_invalid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if ds := Check(test.at); len(ds) != 0 {
				t.Errorf("at the limit: %v", ds)
			}
			if ds := Check(test.above); codes(ds) != test.code {
				t.Errorf("above the limit: %v, want %s", ds, test.code)
			}
		})
	}
}

func FuzzParseDescriptor(f *testing.F) {
	for _, s := range []string{
		`{"name":"a","description":"b","input_schema":{"type":"object","properties":{"q":{"type":["string","null"]}}},"x":1e400}`,
		`{"name":"\ud800","inputSchema":{"$ref":"#/a"}}`, "{\"name\":\"a\",\n\"inputSchema\":{\"a\":\n1}}",
		`{"name":"a","inputSchema":true}`,
		`{"inputSchema":{"type":["object"]},"name":"a"}`, `{"name":"a","a\\":"\"","b":[{"]":"}"}]}`, `null`,
		`{"name":"x","title":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tool, err := ParseDescriptor(data)
		if err != nil {
			var e *protocol.Error
			if !errors.As(err, &e) || len(e.Message) > 2000 {
				t.Fatalf("error %v", err)
			}
			return
		}
		c, ds := NewCatalog(1, []Source{{Extension: "x", Tools: []protocol.Tool{tool}}}, nil)
		if len(c.Entries()) == 0 {
			if len(ds) == 0 {
				t.Fatal("dropped silently")
			}
			return
		}
		e := c.Entries()[0]
		again, err := ParseDescriptor(e.Descriptor)
		if err != nil || again.Name != e.Name || again.Description != e.Description {
			t.Fatalf("descriptor %s is not a descriptor of %q: %v", e.Descriptor, e.Name, err)
		}
		if !json.Valid(e.Own) || strings.ContainsAny(string(e.Descriptor), "\r\n") {
			t.Fatalf("descriptor %q", e.Descriptor)
		}
		_ = e.Validate(json.RawMessage(`{"q":1,"a":null}`))
		for _, f := range Formats() {
			if out, omitted := Export(f, c.Entries()); !json.Valid(out) || len(omitted) > 1 {
				t.Fatalf("%s: %s, %v", f, out, omitted)
			}
		}
	})
}
