package tools

import (
	"encoding/json"
	"testing"
)

// TestAppUse reads what descriptors state about pages of MCP Apps. Whatever cannot be read is not for pages.
func TestAppUse(t *testing.T) {
	const page = "ui://x/page.html"
	for meta, want := range map[string]appUse{
		`{}`:        {},
		`{"ui":{}}`: {stated: true},
		`{"ui":7}`:  {},
		`{"ui":{"resourceUri":"ui://x/page.html"}}`: {page: page, stated: true},
		`{"ui/resourceUri":"ui://x/page.html"}`:     {page: page, stated: true},
		`{"ui":{"resourceUri":"https://x"}}`:        {stated: true},
		`{"ui":{"resourceUri":["ui://x"]}}`:         {stated: true},
		`{"ui":{"visibility":["model","app"]}}`:     {stated: true},
		`{"ui":{"visibility":["app"]}}`:             {stated: true, notModel: true},
		`{"ui":{"visibility":["model"]}}`:           {stated: true, notPages: true},
		`{"ui":{"visibility":[]}}`:                  {stated: true, notPages: true},
		`{"ui":{"visibility":"app"}}`:               {stated: true, notPages: true},
		`{"ui":{"visibility":[7]}}`:                 {stated: true, notPages: true},
		`{"ui":{"visibility":null}}`:                {stated: true},
	} {
		if got := readAppUse(json.RawMessage(`{"name":"t","_meta":` + meta + `}`)); got != want {
			t.Errorf("%s: %+v, want %+v", meta, got, want)
		}
	}
}
