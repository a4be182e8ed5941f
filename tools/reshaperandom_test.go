package tools_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/tools"
)

// randomSchema returns a schema of the arguments a, b and c, with schemas below it down to a depth. It may refer to
// #/$defs/d unless it is that.
func randomSchema(r *rand.Rand, depth int, refers bool) string {
	pick := func(of ...string) string { return of[r.Intn(len(of))] }
	name := func() string { return pick(`"a"`, `"b"`, `"c"`) }
	value := func() string { return pick(`{}`, `{"type":"integer"}`, `{"const":1}`, `false`, `{"enum":["x"]}`) }
	number := func() string { return pick("0", "1", "2", "3") }
	below := func() string {
		if depth == 0 {
			return pick(`{}`, `false`, `{"required":[`+name()+`]}`, `{"properties":{`+name()+`:`+value()+`}}`)
		}
		return randomSchema(r, depth-1, refers)
	}
	keywords := map[string]string{}
	for range 1 + r.Intn(3) {
		switch key := pick("properties", "required", "additionalProperties", "minProperties", "maxProperties",
			"patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "not",
			"allOf", "anyOf", "oneOf", "if", "$ref"); key {
		case "properties":
			keywords[key] = `{"a":` + value() + `,"b":` + value() + `}`
		case "required":
			keywords[key] = `[` + name() + `]`
		case "additionalProperties":
			keywords[key] = value()
		case "minProperties", "maxProperties":
			keywords[key] = number()
		case "patternProperties":
			keywords[key] = `{` + pick(`"^a"`, `"[bc]"`) + `:` + value() + `}`
		case "propertyNames":
			keywords[key] = `{"pattern":` + pick(`"[ac]"`, `"[ab]"`) + `}`
		case "dependentRequired":
			keywords[key] = `{` + name() + `:[` + name() + `]}`
		case "dependentSchemas", "dependencies":
			keywords[key] = `{` + name() + `:` + below() + `}`
		case "not":
			keywords[key] = below()
		case "allOf", "anyOf", "oneOf":
			keywords[key] = `[` + below() + `,` + below() + `]`
		case "if":
			keywords[key], keywords["then"] = below(), below()
		case "$ref":
			if refers {
				keywords[key] = `"#/$defs/d"`
			}
		}
	}
	var members []string
	for key, value := range keywords {
		members = append(members, fmt.Sprintf("%q:%s", key, value))
	}
	slices.Sort(members)
	return "{" + strings.Join(members, ",") + "}"
}

// What TestReshapedSchemasAreExact says holds for schemas that nobody would write, of three drafts.
func TestReshapedRandomSchemasAreExact(t *testing.T) {
	shown := 0
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		s := strings.Replace(randomSchema(r, 2, true), "{", `{"$defs":{"d":`+randomSchema(r, 1, false)+`},"$schema":"`+
			[]string{"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
				"https://json-schema.org/draft/2020-12/schema"}[seed%3]+`",`, 1)
		c := toolOf(t, `,"inputSchema":`+strings.Replace(s, ",}", "}", 1))
		whole := c.Entries()[0]
		name := "abc"[seed%3 : seed%3+1]
		for _, arg := range []tools.Arg{
			{Fix: json.RawMessage(`1`)}, {Fix: json.RawMessage(`"x"`)}, {Hide: true}, {Default: json.RawMessage(`1`)},
		} {
			e, reason := reshaped(c, &tools.Reshape{Args: map[string]tools.Arg{name: arg}})
			if e == nil && !strings.Contains(reason, "accepts no call") {
				if !strings.Contains(reason, "it has no argument") && !strings.Contains(reason, "the default of") {
					t.Fatalf("seed %d: %s of %s: %s", seed, name, s, reason)
				}
				continue
			}
			shown++
			names := []string{"a", "b", "c"}
			if arg.Default == nil {
				names = slices.DeleteFunc(names, func(n string) bool { return n == name })
			}
			calls(names, func(call map[string]string) {
				full := call
				if call[name] == "" {
					full = with(call, name, string(arg.Fix)+string(arg.Default))
				}
				want := whole.Validate(encode(full)) == nil
				if e == nil {
					if want {
						t.Fatalf("seed %d: %s of %s as %+v is refused (%s), %s is accepted", seed, name, s, arg, reason,
							encode(full))
					}
					return
				}
				sent, err := e.Sent(encode(call))
				if err == nil && arg.Default != nil {
					err = whole.Validate(sent)
				}
				if (err == nil) != want || err == nil && !rawjson.Equal(sent, encode(full)) {
					t.Fatalf("seed %d: %s of %s as %+v is shown as %s: %s is accepted: %t, want %t", seed, name, s, arg,
						e.InputSchema, encode(call), err == nil, want)
				}
			})
		}
	}
	if shown < 200 {
		t.Errorf("%d tools are shown", shown)
	}
}
