package mcphttp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/exthost/exthost/internal/wire/jsonrpc"
)

var mirroring = json.RawMessage(`{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},
	"deep":{"type":"object","properties":{"on":{"type":"boolean","x-mcp-header":"On"}}},"plain":{"type":"string"}}}`)

func TestMirror(t *testing.T) {
	mirrors, err := Mirrors(mirroring)
	if err != nil {
		t.Fatal(err)
	}
	byTool := map[string][]Mirror{"tö": mirrors}
	for params, want := range map[string]http.Header{
		`{"name":"tö","arguments":{"region":"eu","n":7,"deep":{"on":true},"plain":"x"}}`: {
			"Mcp-Name": {"=?base64?dMO2?="}, "Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"7"},
			"Mcp-Param-On": {"true"}},
		`{"name":"tö","arguments":{"region":" ü\n","n":1.5,"deep":null}}`: {
			"Mcp-Name": {"=?base64?dMO2?="}, "Mcp-Param-Region": {"=?base64?IMO8Cg==?="}},
		`{"name":"tö","arguments":{"region":"=?base64?x","n":9007199254740993}}`: {
			"Mcp-Name": {"=?base64?dMO2?="}, "Mcp-Param-Region": {"=?base64?PT9iYXNlNjQ/eA==?="}},
		`{"name":"other","arguments":{"region":"eu"}}`: {"Mcp-Name": {"other"}},
	} {
		h := make(http.Header)
		SetHeaders(h, &jsonrpc.Message{Method: "tools/call", Params: json.RawMessage(params)}, byTool)
		want["Mcp-Method"] = []string{"tools/call"}
		if diff := cmp.Diff(want, h); diff != "" {
			t.Errorf("%s\n%s", params, diff)
		}
		if err := CheckHeaders(h, &jsonrpc.Message{Method: "tools/call", Params: json.RawMessage(params)}); err != nil {
			t.Errorf("the other end refuses %v: %v", h, err)
		}
		if err := CheckParams(h, json.RawMessage(params), mirroring); err != nil && !strings.Contains(params, "other") {
			t.Errorf("the other end refuses %v: %v", h, err)
		}
	}
}

// A header must equal its argument. An argument that cannot be written as a header needs none.
func TestCheckParams(t *testing.T) {
	const params = `{"name":"x","arguments":{"region":"eu","n":7.0,"deep":{"on":true}}}`
	good := http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"7"}, "Mcp-Param-On": {"true"}}
	if err := CheckParams(good, json.RawMessage(params), mirroring); err != nil {
		t.Error(err)
	}
	for name, values := range map[string][]string{
		"Mcp-Param-Region": {"us", "EU", "", "=?base64?dXM=?=", "=?base64?!?="},
		"Mcp-Param-N":      {"8", "x", "7.1"},
		"Mcp-Param-On":     {"false", "1"},
	} {
		for _, value := range values {
			h := good.Clone()
			h[name] = []string{value}
			if err := CheckParams(h, json.RawMessage(params), mirroring); err == nil {
				t.Errorf("%s: %s is taken", name, value)
			}
		}
		h := good.Clone()
		h[name] = append(h[name], h[name]...)
		if CheckParams(h, json.RawMessage(params), mirroring) == nil {
			t.Errorf("%s twice is taken", name)
		}
		delete(h, name)
		if CheckParams(h, json.RawMessage(params), mirroring) == nil {
			t.Errorf("%s may be left out", name)
		}
	}
	for params, want := range map[string]string{
		`{"arguments":{"n":7,"deep":{"on":true}}}`:                 "the argument region is not",
		`{"arguments":{"region":["eu"],"n":7,"deep":{"on":true}}}`: "is not what",
	} {
		if err := CheckParams(good, json.RawMessage(params), mirroring); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", params, err)
		}
	}
	h := http.Header{"Mcp-Param-N": {"7.0"}}
	if err := CheckParams(h, json.RawMessage(`{"arguments":{"n":7,"region":null}}`), mirroring); err != nil {
		t.Error(err)
	}
}

func TestMirrorsRefuses(t *testing.T) {
	for property, want := range map[string]string{
		`"a":{"type":"number","x-mcp-header":"A"}`:                                          "no string",
		`"a":{"type":"string","x-mcp-header":""}`:                                           "no name",
		`"a":{"type":"string","x-mcp-header":"A: b"}`:                                       "no name",
		`"a":{"type":"string","x-mcp-header":7}`:                                            "no name",
		`"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`: "two properties",
		`"a":{"type":"object","properties":{"b":{"type":"array","x-mcp-header":"B"}}}`:      "a.b",
	} {
		if _, err := Mirrors(json.RawMessage(`{"properties":{` + property + `}}`)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", property, err, want)
		}
	}
}
