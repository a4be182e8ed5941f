package tools_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/schema"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// toolOf returns a tool of the extension x with these members besides its name.
func toolOf(t testing.TB, members string) *tools.Catalog {
	t.Helper()
	raw := json.RawMessage(`{"name":"get"` + members + `}`)
	c, ds := tools.NewCatalog(1, []tools.Source{{Extension: "x", Tools: []protocol.Tool{{Raw: raw}}}}, nil)
	if c, ok := c.LookupIn("x", "get"); !ok {
		t.Fatalf("%v: %v", c, ds)
	}
	return c
}

// reshaped returns the only tool of a catalog as r shows it, or why it cannot.
func reshaped(c *tools.Catalog, r *tools.Reshape) (*tools.Entry, string) {
	s, refused := c.Select(func(e *tools.Entry) (tools.Shown, bool) {
		return tools.Shown{Name: e.Name, Reshape: r}, true
	}, nil)
	if len(refused) > 0 {
		return nil, refused[0].Reason
	}
	return s.Entries()[0], ""
}

// schemas use every keyword that can be about several arguments. Each names a, b and c.
var schemas = []string{
	`{"properties":{"a":{},"b":{"type":"integer"},"c":{"type":"string"}}}`,
	`{"properties":{"a":{"type":"integer"},"b":{},"c":{}},"required":["a","b"],"additionalProperties":false}`,
	`{"properties":{"a":{},"b":{},"c":{}},"minProperties":2}`,
	`{"properties":{"a":{},"b":{},"c":{}},"maxProperties":1}`,
	`{"properties":{"a":{},"b":{},"c":{}},"minProperties":1,"maxProperties":2}`,
	`{"properties":{"a":{},"b":{},"c":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
	`{"properties":{"a":{},"b":{},"c":{}},"oneOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`,
	`{"properties":{"a":{},"b":{},"c":{}},"not":{"required":["a","b"]}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"not":{"properties":{"a":{"const":1}},"required":["a"]}}`,
	`{"allOf":[{"properties":{"a":{"type":"integer"},"b":{}},"required":["a"]},{"properties":{"c":{"type":"string"}}}]}`,
	`{"$ref":"#/$defs/all","$defs":{"all":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{},"c":{}},` +
		`"required":["a","c"]},"n":{"type":"integer"}}}`,
	`{"allOf":[{"$ref":"#/definitions/ab"},{"$ref":"#/definitions/c"}],"definitions":{"ab":{"properties":{"a":{},"b":` +
		`{"type":"integer"}},"required":["b"]},"c":{"properties":{"c":{"type":"string"}}}}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"dependentRequired":{"a":["b"],"b":["c"]}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"dependentSchemas":{"a":{"required":["b"],"properties":{"c":{"type":"string"}}}}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{},"b":{},"c":{}},` +
		`"dependencies":{"a":["b"],"c":{"required":["a"]}}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"if":{"properties":{"a":{"const":1}},"required":["a"]},` +
		`"then":{"required":["b"]},"else":{"required":["c"]}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"if":{"required":["b"]},"then":{"properties":{"a":{"type":"string"}}}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"patternProperties":{"^[ab]$":{"type":"integer"}},"additionalProperties":false}`,
	`{"properties":{"b":{},"c":{}},"required":["a"],"additionalProperties":{"type":"integer"}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"propertyNames":{"enum":["a","b"]}}`,
	`{"oneOf":[{"properties":{"a":{"const":1},"b":{"type":"integer"}},"required":["a","b"]},` +
		`{"properties":{"a":{"const":"x"},"c":{"type":"string"}},"required":["a","c"]}]}`,
	`{"anyOf":[{"properties":{"a":{"const":1},"b":{}},"required":["a"]},{"properties":{"a":{"const":"x"},"c":{}},` +
		`"required":["a","c"]},{"properties":{"b":{"const":"x"}},"required":["b"]}]}`,
	`{"allOf":[{"anyOf":[{"required":["a"]},{"$ref":"#/$defs/b"}]},{"not":{"allOf":[{"required":["b"]},` +
		`{"required":["c"]}]}}],"properties":{"a":{},"b":{},"c":{}},"$defs":{"b":{"required":["b"]}}}`,
	// Where a schema counts as it is, also where it refuses, a weaker one is not enough.
	`{"properties":{"a":{},"b":{},"c":{}},"not":{"minProperties":3}}`,
	`{"properties":{"a":{},"b":{},"c":{}},"oneOf":[{"maxProperties":1},{"required":["b"]}]}`,
	`{"properties":{"a":{},"b":{},"c":{}},"if":{"minProperties":2},"then":{"required":["c"]}}`,
	`{"$ref":"#/$defs/a","properties":{"b":{"type":"integer"},"c":{}},"$defs":{"a":{"required":["a"]}}}`,
	// Drafts differ in what they ignore.
	`{"properties":{"a":{},"b":{},"c":{}},"dependencies":{"a":["b"],"c":{"required":["a"]}}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/all","required":["z"],` +
		`"properties":{"b":false},"definitions":{"all":{"properties":{"a":{},"b":{"type":"integer"},"c":{}},"required":["a","b"]}}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{},"b":{},"c":{}},"dependentRequired":` +
		`{"a":["b"]},"dependentSchemas":{"b":{"required":["c"]}}}`,
	`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{},"b":{},"c":{}},"if":{"required":["a"]},` +
		`"then":{"required":["b"]},"propertyNames":{"enum":["a"]}}`,
}

// values are those of an argument; "" is none.
var values = []string{"", `1`, `"x"`}

// calls yields the arguments of all calls with values for these names.
func calls(names []string, yield func(map[string]string)) {
	if len(names) == 0 {
		yield(map[string]string{})
		return
	}
	calls(names[1:], func(rest map[string]string) {
		for _, v := range values {
			call := map[string]string{names[0]: v}
			for name, value := range rest {
				call[name] = value
			}
			yield(call)
		}
	})
}

func encode(call map[string]string) json.RawMessage {
	var members []string
	for name, value := range call {
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
	}
	slices.Sort(members)
	return json.RawMessage("{" + strings.Join(members, ",") + "}")
}

func with(call map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for n, v := range call {
		if n != name {
			out[n] = v
		}
	}
	return out
}

// A schema of a part of the arguments accepts exactly what the whole accepts with the values of the rest, whatever
// keywords it has; what is sent has these values; who states them is refused.
func TestReshapedSchemasAreExact(t *testing.T) {
	checked := 0
	for _, s := range schemas {
		c := toolOf(t, `,"inputSchema":`+s)
		whole, _ := c.LookupIn("x", "get")
		accepts := func(call map[string]string) bool { return whole.Validate(encode(call)) == nil }
		for _, name := range []string{"a", "b", "c"} {
			others := slices.DeleteFunc([]string{"a", "b", "c"}, func(n string) bool { return n == name })
			for _, v := range values {
				arg := tools.Arg{Fix: json.RawMessage(v)}
				if v == "" {
					arg = tools.Arg{Hide: true}
				}
				e, reason := reshaped(c, &tools.Reshape{Args: map[string]tools.Arg{name: arg}})
				if e == nil && !strings.Contains(reason, "accepts no call") {
					t.Errorf("%s with %s = %s: %s", s, name, v, reason)
					continue
				}
				calls(others, func(call map[string]string) {
					checked++
					want := accepts(with(call, name, v))
					if e == nil {
						if want {
							t.Errorf("%s with %s = %s is refused (%s), and %s is accepted", s, name, v, reason,
								encode(call))
						}
						return
					}
					sent, err := e.Sent(encode(call))
					if (err == nil) != want {
						t.Errorf("%s with %s = %s shows %s: %s is accepted: %t, want %t", s, name, v, e.InputSchema,
							encode(call), err == nil, want)
					}
					if err == nil && !rawjson.Equal(sent, encode(with(call, name, v))) {
						t.Errorf("%s with %s = %s sends %s for %s", s, name, v, sent, encode(call))
					}
					for _, own := range []string{`1`, `null`, `{}`} {
						_, err := e.Sent(encode(with(call, name, own)))
						if protocol.KindOf(err) != protocol.InvalidArguments {
							t.Errorf("%s with %s = %s: a caller states it: %v", s, name, v, err)
						}
					}
				})
			}
			for _, v := range values[1:] {
				arg := tools.Arg{Default: json.RawMessage(v)}
				e, reason := reshaped(c, &tools.Reshape{Args: map[string]tools.Arg{name: arg}})
				if e == nil {
					if !strings.Contains(reason, "accepts no call") && !strings.Contains(reason, "the default of") {
						t.Errorf("%s with the default %s of %s: %s", s, v, name, reason)
					}
					continue
				}
				calls([]string{"a", "b", "c"}, func(call map[string]string) {
					checked++
					full := call
					if call[name] == "" {
						full = with(call, name, v)
					}
					sent, err := e.Sent(encode(call))
					if err == nil {
						err = e.Validate(sent)
					}
					if (err == nil) != accepts(full) || err == nil && !rawjson.Equal(sent, encode(full)) {
						t.Errorf("%s with the default %s of %s shows %s: %s is sent as %s, %v", s, v, name,
							e.InputSchema, encode(call), sent, err)
					}
				})
			}
		}
	}
	t.Logf("%d calls of %d schemas", checked, len(schemas))
}

// What is shown lacks an argument that is not, also in required and behind references, and keeps every other byte.
func TestReshapedSchemasLackArguments(t *testing.T) {
	for _, test := range []struct {
		schema string
		args   map[string]tools.Arg
		want   string // schema, or why the tool cannot be shown
	}{
		{`{"type":"object","properties":{"repo":{"type":"string"},"n":{"minimum":1.0}},"required":["repo","n"]}`,
			map[string]tools.Arg{"repo": {Fix: json.RawMessage(`"a/b"`)}},
			`{"type":"object","properties":{"n":{"minimum":1.0}},"required":["n"]}`},
		{`{"type":"object","properties":{"repo":{"$ref":"#/$defs/R"},"o":{"$ref":"#/$defs/O"}},"required":["repo"],` +
			`"$defs":{"R":{"type":"string"},"O":{"anyOf":[{"$ref":"#/$defs/N"},{"type":"null"}]},"N":{}}}`,
			map[string]tools.Arg{"repo": {Fix: json.RawMessage(`"a/b"`)}},
			`{"type":"object","properties":{"o":{"$ref":"#/$defs/O"}},"$defs":{"O":{"anyOf":[{"$ref":"#/$defs/N"},` +
				`{"type":"null"}]},"N":{}}}`},
		{`{"type":"object","properties":{"l":{"type":"array","description":"old"},"b":{"$ref":"#/$defs/B"}},` +
			`"required":["l"],"$defs":{"B":{}}}`,
			map[string]tools.Arg{"l": {Default: json.RawMessage(`["bug"]`)}, "b": {Describe: "new"}},
			`{"type":"object","properties":{"l":{"type":"array","description":"old","default":["bug"]},` +
				`"b":{"allOf":[{"$ref":"#/$defs/B"}],"description":"new"}},"$defs":{"B":{}}}`},
		{`{"type":"object","properties":{"repo":{"type":"string"}}}`,
			map[string]tools.Arg{"rpeo": {Fix: json.RawMessage(`1`)}}, `it has no argument "rpeo", did you mean "repo"?`},
		{`{"type":"object"}`, map[string]tools.Arg{"x": {Hide: true}}, `it has no argument "x", and names none`},
		{`{"type":"object","properties":{"n":{"type":"integer"}}}`,
			map[string]tools.Arg{"n": {Fix: json.RawMessage(`"1"`)}}, "the tool accepts no call with these values"},
		{`{"type":"object","properties":{"n":{"type":"integer"}}}`,
			map[string]tools.Arg{"n": {Default: json.RawMessage(`"1"`)}}, `the default of "n" is not accepted by the tool`},
		{`{"type":"object","properties":{"n":{}},"required":["n"]}`, map[string]tools.Arg{"n": {Hide: true}},
			"the tool accepts no call with these values"},
		{`{"type":"object","properties":{"n":{},"sub":{"$ref":"#"}}}`, map[string]tools.Arg{"n": {Fix: json.RawMessage(`1`)}},
			`its schema refers to "#", which is not the same in a part of it`},
		{`{"type":"object","properties":{"n":{}},"enum":[{"n":1}]}`, map[string]tools.Arg{"n": {Fix: json.RawMessage(`1`)}},
			"its schema has enum where it describes the arguments, which cannot be shown in part"},
		{`{"type":"object","properties":{"n":{}},"allOf":[{"$id":"https://x/y","$ref":"#/$defs/o","$defs":{"o":{}}}],` +
			`"$defs":{"o":{"required":["n"]}}}`, map[string]tools.Arg{"n": {Hide: true}},
			"its schema has parts with an $id of their own, to which references are relative"},
	} {
		e, reason := reshaped(toolOf(t, `,"inputSchema":`+test.schema), &tools.Reshape{Args: test.args})
		got := reason
		if e != nil {
			got = string(e.InputSchema)
			for _, descriptor := range []json.RawMessage{e.Descriptor, e.Own} {
				if in := rawjson.Get(descriptor, "inputSchema"); string(in) != got {
					t.Errorf("the descriptor has %s, want %s", in, got)
				}
			}
			if doc, err := schema.Read(e.InputSchema); err != nil || schema.Compile(doc).Err() != nil {
				t.Errorf("%s is no schema", got)
			}
		}
		if got != test.want {
			t.Errorf("%s\ngot  %s\nwant %s", test.schema, got, test.want)
		}
	}
}

// The names of arguments that callers do not state are refused in every spelling that an extension may read.
func TestFixedArgumentsAreABoundary(t *testing.T) {
	c := toolOf(t, `,"inputSchema":{"type":"object","properties":{"repo":{},"labels":{},"body":{}}}`)
	e, reason := reshaped(c, &tools.Reshape{Args: map[string]tools.Arg{
		"repo":   {Fix: json.RawMessage(`"a/b"`)},
		"labels": {Default: json.RawMessage(`["bug"]`)},
	}})
	if e == nil {
		t.Fatal(reason)
	}
	for args, want := range map[string]string{
		`{}`:                           `{"repo":"a/b","labels":["bug"]}`,
		`{"body":1.0}`:                 `{"body":1.0,"repo":"a/b","labels":["bug"]}`,
		` { "body" : "}" } `:           ` { "body" : "}" ,"repo":"a/b","labels":["bug"]} `,
		`{"labels":[]}`:                `{"labels":[],"repo":"a/b"}`,
		`{"repo":"c/d"}`:               "",
		`{"REPO":"c/d"}`:               "",
		`{"\u0072epo":"c/d"}`:          "",
		`{"repo":null}`:                "",
		`{"body":1,"repo":"a/b"}`:      "",
		`{"Labels":[]}`:                "",
		`{"labels":[],"LABELS":["x"]}`: "",
		`[]`:                           `[]`,
		`"repo"`:                       `"repo"`,
	} {
		got, err := e.Sent(json.RawMessage(args))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s is sent as %s, %v; want %s", args, got, err, want)
		}
	}
	if err := e.Validate(json.RawMessage(`[]`)); err == nil {
		t.Error("a list of arguments is valid")
	}
}

// A result is cut to what is kept, in structuredContent and in texts that are JSON, and says so; the output schema is
// that of what is kept.
func TestReshapedResults(t *testing.T) {
	c := toolOf(t, `,"outputSchema":{"type":"object","properties":{"number":{"type":"integer"},"user":{"$ref":"#/$defs/U"},`+
		`"items":{"type":"array","items":{"type":"object","properties":{"id":{},"x":{}},"required":["id","x"]}},"body":{}},`+
		`"required":["number","body"],"$defs":{"U":{"type":"object","properties":{"login":{"type":"string"},"x":{}}}}}`)
	for _, test := range []struct {
		part         tools.Part
		schema       string
		result, want string
	}{
		{tools.Part{Keep: []string{"number", "/user/login", "items/*/id"}},
			`{"type":"object","properties":{"number":{"type":"integer"},"user":{"type":"object","properties":{"login":` +
				`{"type":"string"}}},"items":{"type":"array","items":{"type":"object","properties":{"id":{}},` +
				`"required":["id"]}}},"required":["number"]}`,
			`{"content":[{"type":"text","text":"{\"number\":1.0,\"body\":\"long\"}","x":1},{"type":"text","text":"prose"}],` +
				`"structuredContent":{"body":"long","number":1.0,"user":{"login":"ada","x":1},"items":[{"id":1,"x":2},{"x":3}]},` +
				`"_meta":{"m":1}}`,
			`{"content":[{"type":"text","text":"{\"number\":1.0}","x":1},{"type":"text","text":"prose"}],` +
				`"structuredContent":{"number":1.0,"user":{"login":"ada"},"items":[{"id":1}]},` +
				`"_meta":{"m":1,"exthost/reshaped":{"bytes":123,"kept":75}}}`},
		{tools.Part{Keep: []string{"nothing"}}, "", `{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":{"number":1}}`,
			`{"content":[{"type":"text","text":"[1, 2]"}],"structuredContent":{"number":1}}`},
		{tools.Part{Keep: []string{"number"}}, `{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"]}`,
			`{"content":[{"type":"text","text":"{\"number\":1,\"x\":2}"}],"isError":true}`,
			`{"content":[{"type":"text","text":"{\"number\":1,\"x\":2}"}],"isError":true}`},
		{tools.Part{MaxTokens: math.MaxInt}, "", `{"content":[{"type":"text","text":"all"}]}`,
			`{"content":[{"type":"text","text":"all"}]}`},
		{tools.Part{MaxTokens: 5}, "",
			`{"content":[{"type":"text","text":"0123456789"},{"type":"text","text":"äöüäöüäöü"},{"type":"image","data":"x"}],` +
				`"structuredContent":{"number":1,"body":"too long for this"}}`,
			`{"content":[{"type":"text","text":"0123456789"},{"type":"text","text":"äöüäö"},{"type":"image","data":"x"},` +
				`{"type":"text","text":"[The result is cut: about 5 of 16 tokens. Ask for less of it.]"}],` +
				`"_meta":{"exthost/reshaped":{"bytes":67,"kept":20}}}`},
	} {
		e, reason := reshaped(c, &tools.Reshape{Result: test.part})
		if e == nil {
			t.Fatal(reason)
		}
		if got := string(rawjson.Get(e.Descriptor, "outputSchema")); got != test.schema {
			t.Errorf("%+v: the output schema is\n%s\nwant\n%s", test.part, got, test.schema)
		}
		if got := string(e.Shown(json.RawMessage(test.result))); got != test.want {
			t.Errorf("%+v of %s:\n%s\nwant\n%s", test.part, test.result, got, test.want)
		}
	}
}

// Ten times the branches cost about ten times the work: the schema comes from the extension, and the host starts after
// its catalog is shown.
func TestReshapingIsLinear(t *testing.T) {
	r := &tools.Reshape{Args: map[string]tools.Arg{"a": {Fix: json.RawMessage(`"x"`)}}}
	work := func(branches int) float64 {
		all := make([]string, branches)
		for i := range all {
			all[i] = fmt.Sprintf(`{"properties":{"a":{"type":"string"},"b%d":{}},"required":["b%d"]}`, i, i)
		}
		c := toolOf(t, `,"inputSchema":{"type":"object","anyOf":[`+strings.Join(all, ",")+`]}`)
		return testing.AllocsPerRun(1, func() {
			if e, reason := reshaped(c, r); e == nil {
				t.Fatal(reason)
			}
		})
	}
	if few, many := work(20), work(200); many > 20*few {
		t.Errorf("%v allocations for 20 branches, %v for 200", few, many)
	}
}

// A schema whose parts refer to others again and again, or that has many patterns, costs no more than its bytes allow.
func TestReshapingIsBounded(t *testing.T) {
	twice := `{"properties":{"a":{},"b":{}},"allOf":[{"$ref":"#/$defs/d0"}],"$defs":{`
	for i := range 40 {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		twice += fmt.Sprintf(`"d%d":{"allOf":[%s,%s]},`, i, next, next)
	}
	twice += `"d40":{"properties":{"a":{"type":"string"}},"required":["a","b"]}}}`
	r := &tools.Reshape{Args: map[string]tools.Arg{"a": {Fix: json.RawMessage(`"x"`)}}}
	if e, reason := reshaped(toolOf(t, `,"inputSchema":`+twice), r); e != nil || !strings.Contains(reason, "too large") {
		t.Errorf("references to references: %v, %q", e, reason)
	}
	work := func(args int) float64 {
		shape := &tools.Reshape{Args: make(map[string]tools.Arg)}
		var properties, patterns []string
		for i := range args {
			name := fmt.Sprintf("a%d", i)
			shape.Args[name] = tools.Arg{Fix: json.RawMessage(`1`)}
			properties = append(properties, fmt.Sprintf(`%q:{}`, name))
		}
		for i := range 200 {
			patterns = append(patterns, fmt.Sprintf(`"^b%d$":{}`, i))
		}
		c := toolOf(t, `,"inputSchema":{"properties":{`+strings.Join(properties, ",")+`},"patternProperties":{`+
			strings.Join(patterns, ",")+`},"additionalProperties":false}`)
		return testing.AllocsPerRun(1, func() {
			if e, reason := reshaped(c, shape); e == nil {
				t.Fatal(reason)
			}
		})
	}
	if few, many := work(10), work(100); many > 5*few {
		t.Errorf("%v allocations for 10 arguments, %v for 100", few, many)
	}
}

// Hints are replaced for clients. The risk and what the tool itself said stay.
func TestReshapedAnnotations(t *testing.T) {
	c := toolOf(t, `,"annotations":{"title":"T","destructiveHint":true}`)
	e, reason := reshaped(c, &tools.Reshape{Annotations: json.RawMessage(`{"destructiveHint":false}`)})
	if e == nil {
		t.Fatal(reason)
	}
	if got := string(rawjson.Get(e.Descriptor, "annotations")); got != `{"title":"T","destructiveHint":false}` ||
		e.Risk != protocol.RiskDestroy || string(e.Annotations) != `{"title":"T","destructiveHint":true}` {
		t.Errorf("%s, %s, %s", got, e.Risk, e.Annotations)
	}
}

func BenchmarkReshapedCall(b *testing.B) {
	c := toolOf(b, `,"inputSchema":{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},`+
		`"title":{"type":"string"},"body":{"type":"string"},"labels":{"type":"array","items":{"type":"string"}}},`+
		`"required":["owner","repo","title"]}`)
	e, reason := reshaped(c, &tools.Reshape{Args: map[string]tools.Arg{
		"owner":  {Fix: json.RawMessage(`"acme"`)},
		"repo":   {Fix: json.RawMessage(`"tracker"`)},
		"labels": {Default: json.RawMessage(`["bug"]`)},
	}})
	if e == nil {
		b.Fatal(reason)
	}
	args := json.RawMessage(`{"title":"It breaks","body":"Steps, expected, seen."}`)
	for b.Loop() {
		if _, err := e.Sent(args); err != nil {
			b.Fatal(err)
		}
	}
}
