package schema

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/exthost/exthost/internal/text/display"
)

const plainSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","description":"d","properties":{
	"city":{"type":"string","description":"where"},
	"units":{"enum":["metric","im\\perial"],"default":"metric"},
	"days":{"type":["integer","null"]},
	"share":{"type":"number"},
	"deep":{"type":"object","properties":{"ok":{"type":"boolean"}},"additionalProperties":{"type":"string"}},
	"tags":{"type":"array","items":{"type":"string"}},
	"any":{}, "never":false, "odd":{"minimum":1}
},"required":["city"],"additionalProperties":false}`

func TestShape(t *testing.T) {
	doc, err := Read([]byte(plainSchema))
	if err != nil {
		t.Fatal(err)
	}
	k := Compile(doc)
	for args, fits := range map[string]bool{
		`{"city":"Oslo"}`: true,
		` { "city" : "O\"slo" , "units" : "metric" , "days" : -3 , "share" : 0.5 , "tags" : [ "a" , "b" ] } `:           true,
		`{"city":"","days":null,"share":12,"deep":{"ok":true,"x":"y"},"tags":[],"any":[{"a":{},"b":[null,false,1.5]}]}`: true,

		`{}`: false, `[]`: false, `{"city":1}`: false, `{"city":null}`: false, `{"city":"a","more":1}`: false,
		`{"city":"a","city":"b"}`: false, `{"city":"a","any":{"x":1,"x":2}}`: false, `{"c\u0069ty":"a"}`: false,
		`{"city":"a","units":"Metric"}`: false, `{"city":"a","units":"im\\perial"}`: false,
		`{"city":"a","units":"im\perial"}`: false,
		`{"city":"a","days":1.0}`:          false, `{"city":"a","days":1e0}`: false,
		`{"city":"a","share":1e9999}`:       false,
		`{"city":"a","deep":{"ok":"true"}}`: false, `{"city":"a","deep":{"x":1}}`: false,
		`{"city":"a","tags":["a",1]}`: false,
		`{"city":"a","never":1}`:      false, `{"city":"a","odd":5}`: false, `{"city":"a"} 1`: false,
		`{"city":"a","any":` + strings.Repeat("[", MaxArgumentDepth+1) + strings.Repeat("]",
			MaxArgumentDepth+1) + `}`: false,
		`{"city":"a","any":` + strings.Repeat("[", MaxArgumentDepth) + strings.Repeat("]",
			MaxArgumentDepth) + `}`: true,
		`{"city":"a","share":` + strings.Repeat("1",
			MaxNumberBytes+1) + `}`: false,
		`{"city":"a","any":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, maxShapeMembers+1),
			",") + `}}`: false,
		`{"city":"a","any":[` + strings.TrimSuffix(strings.Repeat(`0,`, MaxArgumentNodes),
			",") + `]}`: false,
		`{"city":"a","tags":[` + strings.TrimSuffix(strings.Repeat(`"x",`, maxShapeMembers+1),
			",") + `],"days":123456789012345678901}`: true,
	} {
		if got := k.shape.matches([]byte(args)); got != fits {
			t.Errorf("%s fits: %t", display.Cut(args, 100), got)
		}
	}
}

// TestShapeAcceptsJSONAlone checks that the fast check refuses what is not JSON, as nothing checks it before.
func TestShapeAcceptsJSONAlone(t *testing.T) {
	doc, err := Read([]byte(plainSchema))
	if err != nil {
		t.Fatal(err)
	}
	k := Compile(doc)
	for _, args := range []string{
		``,
		` `,
		`{,}`,
		`{"city":"a"`,
		`{"city" "a"}`,
		`{"city":"a",}`,
		`{"city":"a"]`,
		`{"city":"a" "days":1}`,
		`{"city":"a","tags":["x",]}`,
		`{"city":"a","tags":["x" "y"]}`,
		`{"city":"a","tags":["x"}`,
		`{"city":"a","days":01}`,
		`{"city":"a","share":1.}`,
		`{"city":"a","any":tru}`,
		`{"city":"a","any":nulll}`,
		"{\"city\":\"a\nb\"}",
		"{\"city\":\"\xff\"}",
		"{\"city\":\"a\"}\x00",
	} {
		if k.shape.matches([]byte(args)) || len(k.Check([]byte(args))) == 0 {
			t.Errorf("%q was accepted", args)
		}
	}
}

// FuzzShape checks that the full check accepts every value that the shape accepts.
func FuzzShape(f *testing.F) {
	f.Add([]byte(plainSchema), []byte(`{"city":"Oslo","units":"metric","days":null,"tags":["a"],"any":{"x":[1.5]}}`))
	f.Add([]byte(`{"required":["a","b"],"additionalProperties":{"type":"array","items":{"enum":["x"]}}}`),
		[]byte(`{"a":["x"],"b":[]}`))
	f.Add([]byte(`{"properties":{"a":{"type":["number","boolean"]},"a":true},"items":false}`), []byte(`{"a":-0.0}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"type":"integer"}}}`),
		[]byte(`{"a":1,"":{"a":1}}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		doc, err := Read(schema)
		if err != nil {
			return
		}
		k := Compile(doc)
		if k.err != nil || !k.shape.matches(args) {
			return
		}
		value, s, err := decode(args, bounds{MaxArgumentNodes, MaxArgumentDepth})
		if err == nil {
			err = k.validate(value, s.nodes)
		}
		if err != nil && !errors.Is(err, errTooCostly) {
			t.Errorf("%s fits %s: %v", json.RawMessage(args), schema, err)
		}
	})
}
