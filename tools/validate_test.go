package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
)

// withSchema returns a tool with a schema that compiles.
func withSchema(t testing.TB, schema string) *Entry {
	t.Helper()
	return one(t, `{"name":"t","inputSchema":`+schema+`}`)
}

// problemsOf validates args and decodes the data of the error.
func problemsOf(t testing.TB, e *Entry, args string) []Problem {
	t.Helper()
	err := e.Validate(json.RawMessage(args))
	if err == nil {
		return nil
	}
	var pe *protocol.Error
	if !errors.As(err, &pe) || pe.Kind != protocol.InvalidArguments || pe.Tool != e.Name ||
		pe.Extension != e.Extension {
		t.Fatalf("error %#v", err)
	}
	var ps []Problem
	d := json.NewDecoder(strings.NewReader(string(pe.Data)))
	d.UseNumber()
	if err := d.Decode(&ps); err != nil {
		t.Fatalf("data %s: %v", pe.Data, err)
	}
	return ps
}

const forecast = `{"type":"object","properties":{
	"city":{"type":"string","description":"City name,\n as written there","minLength":1},
	"days":{"type":["integer","null"],"minimum":1,"maximum":14},
	"units":{"enum":["metric","imperial"]},
	"where":{"anyOf":[{"type":"string"},{"type":"object","properties":{"lat":{"type":"number"},"lon":{"type":"number"}},"required":["lat","lon"]}]},
	"tags":{"type":"array","items":{"type":"string","pattern":"^[a-z]+$"},"maxItems":3,"uniqueItems":true},
	"exact":{"const":12345678901234567890}
},"required":["city"],"additionalProperties":false}`

func TestValidate(t *testing.T) {
	e := withSchema(t, forecast)
	known := []any{"city", "days", "exact", "tags", "units", "where"}
	for _, test := range []struct {
		args string
		want []Problem
	}{
		{`{"city":"Oslo","days":3,"units":"metric","where":{"lat":1,"lon":2.5},"tags":["a","b"]}`, nil},
		{`{"city":"Oslo","exact":12345678901234567890}`, nil},
		{`{"city":"Oslo","days":null,"where":"here"}`, nil},
		{`{"city":"Oslo","exact":12345678901234567891}`,
			[]Problem{{Path: "/exact", Expected: "one of the allowed values",
				Got: "number 12345678901234567891", Allowed: []any{json.Number("12345678901234567890")}}}},
		{``, []Problem{
			{Path: "/city", Expected: "a value, it is required: string (City name, as written there)", Got: "nothing"},
		}},
		{` null `, []Problem{
			{Path: "/city", Expected: "a value, it is required: string (City name, as written there)", Got: "nothing"},
		}},
		{`[1]`, []Problem{{Expected: "an object", Got: "an array"}}},
		{`{"city":"","days":0}`, []Problem{
			{Path: "/city", Expected: "at least 1 characters (there are 0)", Got: `string ""`},
			{Path: "/days", Expected: "a number ≥ 1", Got: "number 0"}}},
		{`{"city":"Oslo","days":2.5}`, []Problem{{Path: "/days", Expected: "null or integer", Got: "number 2.5"}}},
		{`{"city":"Oslo","days":"3"}`, []Problem{{Path: "/days", Expected: "null or integer", Got: `string "3"`}}},
		{`{"ctiy":"Oslo"}`, []Problem{
			{Path: "/city", Expected: "a value, it is required: string (City name, as written there)", Got: "nothing"},
			{Path: "/ctiy", Expected: "no such property", Got: `string "Oslo"`, Allowed: known, Nearest: "city"}}},
		{`{"city":"Oslo","units":"Metrc"}`,
			[]Problem{{Path: "/units", Expected: "one of the allowed values", Got: `string "Metrc"`,
				Allowed: []any{"metric", "imperial"}, Nearest: "metric"}}},
		{`{"city":"Oslo","where":{"lat":1}}`,
			[]Problem{{Path: "/where/lon", Expected: "a value, it is required: number", Got: "nothing"}}},
		{`{"city":"Oslo","where":7}`, []Problem{{Path: "/where", Expected: "string, or object", Got: "number 7"}}},
		{`{"city":"Oslo","tags":["a","B"]}`,
			[]Problem{{Path: "/tags/1", Expected: "a string that matches the pattern ^[a-z]+$", Got: `string "B"`}}},
		{`{"city":"Oslo","tags":["a","a"]}`,
			[]Problem{{Path: "/tags", Expected: "no two equal items (0 and 1 are)", Got: "an array of 2"}}},
		{`{"city":"Oslo","city":"Rome"}`,
			[]Problem{{Expected: "arguments that can be checked", Got: `duplicate key "city"`}}},
		{`{"city":`, []Problem{
			{Expected: "arguments that can be checked", Got: "not valid JSON: unexpected end of JSON"},
		}},
	} {
		if diff := cmp.Diff(test.want, problemsOf(t, e, test.args)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.args, diff)
		}
	}
}

// Every keyword of the schema library has a description when it is violated.
func TestValidateKeywords(t *testing.T) {
	for _, test := range []struct{ property, value, want string }{
		{`"maximum":5`, `6`, "/v: expected a number ≤ 5, got number 6"},
		{`"exclusiveMinimum":0.5`, `0.5`, "/v: expected a number > 0.5, got number 0.5"},
		{`"exclusiveMaximum":5`, `5`, "/v: expected a number < 5, got number 5"},
		{`"multipleOf":3`, `4`, "/v: expected a multiple of 3, got number 4"},
		{`"maxLength":2`, `"日本語"`, `/v: expected at most 2 characters (there are 3), got string "日本語"`},
		{`"minItems":2`, `[]`, "/v: expected at least 2 items, got an array of 0"},
		{`"maxItems":0`, `[1]`, "/v: expected at most 0 items, got an array of 1"},
		{`"contains":{"const":1}`, `[2]`, "/v: expected an item that matches the schema's contains, got an array of 1"},
		{`"contains":{"const":1},"minContains":2`, `[1]`,
			"/v: expected at least 2 items that match the schema's contains, got an array of 1"},
		{`"contains":{"const":1},"maxContains":1`, `[1,1]`,
			"/v: expected at most 1 items that match the schema's contains, got an array of 2"},
		{`"minProperties":1`, `{}`, "/v: expected at least 1 properties, got an object with no properties"},
		{`"maxProperties":0`, `{"a":1}`, "/v: expected at most 0 properties, got an object with a"},
		{`"not":{"type":"string"}`, `"a"`,
			`/v: expected something that the schema's not does not match, got string "a"`},
		{`"propertyNames":{"maxLength":1}`, `{"ab":1}`,
			`/v: expected property names that match the schema's propertyNames, got "ab"`},
		{`"dependentRequired":{"a":["b"]}`, `{"a":1}`,
			`/v/b: expected a value, it is required beside "a", got nothing`},
		{`"oneOf":[{"minimum":1},{"minimum":2}]`, `3`,
			"/v: expected a match of exactly one alternative, not of 1 and 2, got number 3"},
		{`"anyOf":[{"const":"on"},{"const":"off"}]`, `"oof"`,
			`/v: expected one of the allowed values, got string "oof"; did you mean off?; allowed: "on", "off"`},
		{`"anyOf":[{"const":"auto"},{"type":"integer"}]`, `true`,
			`/v: expected integer, or one of the allowed values, got boolean true; allowed: "auto"`},
		{`"allOf":[{"type":"string"},{"type":"number"}]`, `null`, "/v: expected number, got null"},
		{`"if":{"type":"string"},"then":{"minLength":2}`, `"a"`,
			`/v: expected at least 2 characters (there are 1), got string "a"`},
		{`"properties":{"a":{}},"unevaluatedProperties":false`, `{"aa":1}`,
			`/v/aa: expected no such property, got number 1; did you mean a?; allowed: "a"`},
		{`"properties":{"a":false}`, `{"a":1}`, "/v/a: expected nothing here, got number 1"},
		{`"prefixItems":[{}],"items":false`, `[1,2]`, "/v/1: expected nothing here, got number 2"},
		{`"$ref":"#/$defs/s"`, `1`, "/v: expected string, got number 1"},
		{`"properties":{"a/b~":{"type":"null"}}`, `{"a/b~":[]}`, "/v/a~1b~0: expected null, got an array of 0"},
	} {
		e := withSchema(t, `{"type":"object","properties":{"v":{`+test.property+`}},"$defs":{"s":{"type":"string"}}}`)
		err := e.Validate(json.RawMessage(`{"v":` + test.value + `}`))
		if err == nil || !strings.Contains(err.Error(), "\n- "+test.want) {
			t.Errorf("%s with %s:\n got %v\nwant %s", test.property, test.value, err, test.want)
		}
	}
}

func TestValidateDialects(t *testing.T) {
	tuple := `"properties":{"v":{"items":[{"type":"string"}],"additionalItems":false}}}`
	draft7 := withSchema(t, `{"$schema":"http://json-schema.org/draft-07/schema#",`+tuple)
	if got := problemsOf(t, draft7, `{"v":["a",1]}`); len(got) != 1 || got[0].Expected != "1 items fewer" {
		t.Errorf("draft-07: %v", got)
	}
	// Without $schema the draft is 2020-12, in which this tuple is invalid.
	c, ds := NewCatalog(1, []Source{
		{Extension: "x", Tools: []protocol.Tool{raw(`{"name":"t","inputSchema":{` + tuple + `}`)}},
	}, nil)
	if codes(ds) != "tool_schema_unchecked" || c.Entries()[0].Validate(json.RawMessage(`{"v":[1]}`)) != nil {
		t.Errorf("2020-12: %v", ds)
	}
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		"":           "{}",
		" ":          "{}",
		"null":       "{}",
		" null\n":    "{}",
		"{}":         "{}",
		`{"a":null}`: `{"a":null}`,
		"[]":         "[]",
	} {
		if got := string(Arguments(json.RawMessage(in))); got != want {
			t.Errorf("Arguments(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestErrorIsBounded(t *testing.T) {
	e := withSchema(t, forecast)
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `"%s%d":%q,`, strings.Repeat("k", 300), i, strings.Repeat("v", 300))
	}
	args := json.RawMessage("{" + strings.TrimSuffix(b.String(), ",") + "}")
	err := e.Validate(args)
	var pe *protocol.Error
	if !errors.As(err, &pe) || len(pe.Message) > maxMessage || len(pe.Data) > 64<<10 {
		t.Fatalf("message of %d bytes, data of %d", len(pe.Message), len(pe.Data))
	}
	if !strings.Contains(pe.Message, "- and at least 4991 more") {
		t.Errorf("the rest is not counted: …%s", pe.Message[len(pe.Message)-100:])
	}
	if got := len(problemsOf(t, e, string(args))); got != maxProblems {
		t.Errorf("%d problems in data", got)
	}
}

// Arguments are not interpreted, and errors are bounded.
func TestHostileArgumentsAreBounded(t *testing.T) {
	e := withSchema(t, `{"properties":{"v":{"type":["string","number","array"],"maximum":10,"multipleOf":0.1}}}`)
	for _, v := range []string{`"--upload-pack=touch x"`, `"-o"`, `"; rm -rf /"`, `"$(id)"`, `"\u0000"`, `[]`} {
		if err := e.Validate(json.RawMessage(`{"v":` + v + `}`)); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	for name, v := range map[string]string{
		"exponent":          "1e999999999",
		"negative exponent": "1e-1001",
		"digits":            strings.Repeat("9", schema.MaxNumberBytes+1),
		"depth": strings.Repeat("[", schema.MaxArgumentDepth+1) + strings.Repeat("]",
			schema.MaxArgumentDepth+1),
		"nodes": "[" + strings.Repeat("0,", schema.MaxArgumentNodes) + "0]",
	} {
		got := problemsOf(t, e, `{"v":`+v+`}`)
		if len(got) != 1 || got[0].Expected != "arguments that can be checked" {
			t.Errorf("%s: %v", name, got)
		}
	}
	depth := strings.Repeat("[", schema.MaxArgumentDepth) + strings.Repeat("]", schema.MaxArgumentDepth)
	if got := problemsOf(t, e, `{"v":`+depth+`}`); got != nil {
		t.Errorf("at the depth limit: %v", got)
	}
}

// doubling returns a schema whose check visits the same value 2^n times.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"allOf":[{"$ref":"#/$defs/a0"}],"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%[2]d"}]},`, i, i+1)
	}
	fmt.Fprintf(&b, `"a%d":{"type":"object"}}}`, n)
	return b.String()
}

// Each schema is dropped, unchecked, or checked within the bounds, and loads no other document.
func TestSchemaBombsAreBounded(t *testing.T) {
	const dropped, unchecked, refused, accepted = "dropped", "unchecked", "refused", "accepted"
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+",", i)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for _, test := range []struct{ name, schema, args, want string }{
		{"deep", nested(10_000), `{}`, dropped},
		{"wide", `{"properties":{` + repeat(20_000, `"p%d":{}`) + `}}`, `{}`, dropped},
		{"remote", `{"$ref":"http://192.0.2.1/schema.json"}`, `{}`, unchecked},
		{"file", `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `{}`, unchecked},
		{"remote dialect", `{"$schema":"http://192.0.2.1/schema.json"}`, `{}`, unchecked},
		{"many references", `{"properties":{` + repeat(schema.MaxRefs+1,
			`"p%d":{"$ref":"#/$defs/a"}`) + `},"$defs":{"a":{}}}`, `{}`, unchecked},
		{"large repeat", `{"properties":{"v":{"pattern":"(a{30}){30}a{500}"},"w":{"pattern":"a{999}b{999}[cd]{999}(xyzxyzxyz){900}"}}}`, `{}`, unchecked},
		{"backtracking", `{"properties":{"v":{"pattern":"^(a+)+$"}}}`, `{"v":"` + strings.Repeat("a", 50_000) + `!"}`,
			refused},
		{"lookahead", `{"properties":{"v":{"pattern":"(?=a)"}}}`, `{"v":"b"}`, unchecked},
		{"costly match", `{"properties":{"v":{"pattern":"(a|b){1,900}$"}}}`,
			`{"v":"` + strings.Repeat("a", 100_000) + `"}`, refused},
		{"doubling", doubling(30), `{}`, refused},
		{"doubling a little", doubling(8), `{}`, accepted},
		{"recursive doubling", `{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/n"}}},{"properties":{"x":{"$ref":"#/$defs/n"}}}]}}}`,
			strings.Repeat(`{"x":`, 100) + "{}" + strings.Repeat("}", 100), refused},
		{"recursive", `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}}}}}`,
			strings.Repeat(`{"x":`, 100) + "{}" + strings.Repeat("}", 100), accepted},
		{"endless", `{"$ref":"#/$defs/n","$defs":{"n":{"$ref":"#/$defs/n"}}}`, `{}`, accepted},
		{"wide against wide", `{"properties":{"v":{"items":{"enum":[` + repeat(5000, "%d") + `]}}}}`,
			`{"v":[` + repeat(100_000, `"%d"`) + `]}`, refused},
		{"many alternatives", `{"properties":{"v":{"items":{"anyOf":[` + repeat(900, `{"const":%d}`) + `]}}}}`,
			`{"v":[` + repeat(10_000, `"%d"`) + `]}`, refused},
		{"large but plain", `{"properties":{"v":{"items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":9}}}}}}`,
			`{"v":[` + repeat(50_000, `{"id":%[1]d,"name":"n%[1]d"}`) + `]}`, accepted},
		{"huge minimum", `{"properties":{"v":{"minimum":1e999999}}}`, `{}`, dropped},
		{"unresolvable targets",
			`{"x":` + nested(60) + `,"properties":{` + repeat(60,
				`"p%[1]d":{"$ref":"#/x`+strings.Repeat("/not", 3)+`"}`) + `}}`, `{}`, accepted},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, ds := NewCatalog(1,
				[]Source{
					{Extension: "x", Tools: []protocol.Tool{raw(`{"name":"t","inputSchema":` + test.schema + `}`)}},
				}, nil)
			got := dropped
			if len(c.Entries()) == 1 {
				got = accepted
				if err := c.Entries()[0].Validate(json.RawMessage(test.args)); err != nil {
					got = refused
				}
			}
			if got == accepted && codes(ds) == "tool_schema_unchecked" {
				got = unchecked
			}
			if got != test.want || (got == dropped) != (len(ds) > 0 && ds[0].Level == protocol.LevelError) {
				t.Errorf("%s, diagnostics %v; want %s", got, ds, test.want)
			}
		})
	}
}

// A call that uses up its validation budget does not affect others.
func TestValidationBudgetIsPerCall(t *testing.T) {
	e := withSchema(t, `{"$ref":"#/$defs/n","$defs":{"n":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/n"}}},{"properties":{"x":{"$ref":"#/$defs/n"}}}]}}}`)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			depth, want := 3, false
			if i%2 == 0 {
				depth, want = 60, true
			}
			err := e.Validate(json.RawMessage(strings.Repeat(`{"x":`, depth) + "{}" + strings.Repeat("}", depth)))
			if (err != nil) != want {
				t.Errorf("depth %d: %v", depth, err)
			}
		})
	}
	calls.Wait()
}

func BenchmarkValidate(b *testing.B) {
	for _, test := range []struct{ name, schema, args string }{
		{"plain", `{"type":"object","properties":{"city":{"type":"string"},"units":{"enum":["metric","imperial"]},"days":{"type":["integer","null"]},"tags":{"type":"array","items":{"type":"string"}}},"required":["city"]}`, `{"city":"Oslo","days":3,"units":"metric","tags":["a","b"]}`},
		{"good", forecast, `{"city":"Oslo","days":3,"units":"metric","where":{"lat":59.9,"lon":10.7},"tags":["a","b"]}`},
		{"bad", forecast, `{"ctiy":"Oslo","days":"3","units":"metrc"}`},
	} {
		b.Run(test.name, func(b *testing.B) {
			e := withSchema(b, test.schema)
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Validate(json.RawMessage(test.args)); (err == nil) != (test.name != "bad") {
					b.Fatal(err)
				}
			}
		})
	}
}
