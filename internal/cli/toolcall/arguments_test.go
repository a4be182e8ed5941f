package toolcall

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/tools"
)

func TestArguments(t *testing.T) {
	e := &tools.Entry{
		Name: "ext_a_b",
		InputSchema: json.RawMessage(`{"type":"object","properties":{
		"s":{"type":"string"}, "n":{"type":"integer"}, "r":{"type":"number"}, "b":{"type":"boolean"}, "o":{"type":"object"},
		"sn":{"type":["string","integer"]}, "z":{"type":"null"}, "any":{}, "c":{"const":1}, "e":{"enum":["1",2]},
		"opt":{"anyOf":[{"type":"integer"},{"type":"null"}]}, "l":{"type":"array"}, "ln":{"type":"array","items":{"type":"integer"}},
		"ol":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"null"}]},
		"ref":{"$ref":"#/$defs/n"}, "loop":{"$ref":"#/$defs/loop"}, "far":{"$ref":"https://example.com/s"}},
		"$defs":{"n":{"type":"integer"},"loop":{"$ref":"#/$defs/loop"}}}`),
	}
	for _, test := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"s=1"}, `{"s":"1"}`},
		{[]string{"s="}, `{"s":""}`},
		{[]string{"s=a=b"}, `{"s":"a=b"}`},
		{[]string{"n=12345678901234567890"}, `{"n":12345678901234567890}`},
		{[]string{"n=1.5"}, `{"n":1.5}`}, // left to the schema
		{[]string{"n=x"}, `{"n":"x"}`},
		{[]string{"n=007"}, `{"n":"007"}`},
		{[]string{"r=3", "r=1e9"}, `{"r":1e9}`},
		{[]string{"b=true"}, `{"b":true}`},
		{[]string{"b=yes"}, `{"b":"yes"}`},
		{[]string{`o={"a":1}`}, `{"o":{"a":1}}`},
		{[]string{"sn=1"}, `{"sn":"1"}`},
		{[]string{"z=null"}, `{"z":null}`},
		{[]string{"any=1"}, `{"any":"1"}`},
		{[]string{"unknown=1"}, `{"unknown":"1"}`},
		{[]string{"c=1"}, `{"c":1}`},
		{[]string{"e=1"}, `{"e":"1"}`},
		{[]string{"opt=1"}, `{"opt":1}`},
		{[]string{"opt=null"}, `{"opt":null}`},
		{[]string{"l=a"}, `{"l":["a"]}`},
		{[]string{"l=[]", "l=a", "l=b"}, `{"l":["a","b"]}`},
		{[]string{"ln=1", "ln=2"}, `{"ln":[1,2]}`},
		{[]string{"ol=1", "ol=2"}, `{"ol":[1,2]}`},
		{[]string{"ref=1", "loop=1", "far=1"}, `{"ref":1,"loop":"1","far":"1"}`},
		{[]string{"s:=1"}, `{"s":1}`},
	} {
		got, err := Arguments(json.RawMessage("{}"), test.pairs, e.Name, e.InputSchema)
		if err != nil || string(got) != test.want {
			t.Errorf("%v is read as %s (%v), want %s", test.pairs, got, err, test.want)
		}
	}
	for _, pair := range []string{"word", "=v", ":=1", "s:=word"} {
		_, err := Arguments(json.RawMessage("{}"), []string{pair}, e.Name, e.InputSchema)
		var exit *console.Error
		if !errors.As(err, &exit) || exit.Code != console.ExitUsage {
			t.Errorf("%q: %v", pair, err)
		}
	}
}
