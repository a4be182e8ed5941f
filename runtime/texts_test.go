package runtime

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/manifest"
)

// TestRetold replaces texts of descriptors, and leaves everything else as the server sent it.
func TestRetold(t *testing.T) {
	list := []json.RawMessage{
		json.RawMessage(`{"name": "a", "inputSchema": {"default": 12345678901234567890}, "annotations": {"title": "A", ` +
			`"openWorldHint": true}}`),
		json.RawMessage(`{"name": "b", "description": "B"}`),
		json.RawMessage(`{"description": "no name"}`),
		json.RawMessage(`null`),
	}
	texts := map[string]manifest.ToolText{
		"a": {
			Title:       "The A",
			Description: "Does <a>.",
			Annotations: map[string]any{"openWorldHint": false, "readOnlyHint": true},
		},
		"b": {Annotations: map[string]any{"destructiveHint": false}},
		"":  {Title: "nothing"},
	}
	got := retold(list, texts)
	for i, want := range []string{
		`{"name": "a","inputSchema": {"default": 12345678901234567890},"annotations": {"title": "A",` +
			`"openWorldHint": false,"readOnlyHint":true},"title":"The A","description":"Does <a>."}`,
		`{"name": "b","description": "B","annotations":{"destructiveHint":false}}`,
		`{"description": "no name"}`,
		`null`,
	} {
		if string(got[i]) != want {
			t.Errorf("%s\nwant %s", got[i], want)
		}
	}
	if string(list[1]) != `{"name": "b", "description": "B"}` {
		t.Errorf("the list of the server has changed: %s", list[1])
	}
	r := &review{}
	r.readTools(got)
	r.untold(texts)
	if n := len(r.diagnostics); n != 3 { // two invalid descriptors, and texts for a tool that is not there
		t.Errorf("%v", r.diagnostics)
	}
}
