package sdk

import (
	"encoding/json"
	"testing"
)

// Arguments without a required member are an error that names it, and the tool is not called.
func TestRequiredMembersAreChecked(t *testing.T) {
	type place struct {
		Town string `json:"town"`
		Zip  string `json:"zip,omitempty"`
	}
	type in struct {
		Name   string           `json:"name"`
		Unit   string           `json:"unit,omitempty"`
		At     place            `json:"at"`
		Stops  []place          `json:"stops,omitempty"`
		Others map[string]place `json:"others,omitempty"`
	}
	const valid = `"name":"a","at":{"town":"b"}`
	for arguments, want := range map[string]string{
		`{` + valid + `}`:                  "",
		`{"name":null,"at":{"town":null}}`: "", // the type is another matter
		`{` + valid + `,"stops":[{"town":"c"}],"others":{"x":{"town":"d"}}}`: "",
		``:                               "name, at is missing",
		`{}`:                             "name, at is missing",
		`{"unit":"C"}`:                   "name, at is missing",
		`{"name":"a"}`:                   "at is missing",
		`{"name":"a","at":{}}`:           "at.town is missing",
		`{"NAME":"a","at":{"town":"b"}}`: "name is missing",
		`{` + valid + `,"stops":[{"town":"c"},{}]}`:  "stops[1].town is missing",
		`{` + valid + `,"others":{"x":{"zip":"1"}}}`: "others.x.town is missing",
	} {
		if want != "" {
			want = "the arguments do not fit: " + want
		}
		got := ""
		if err := shapeOf(schemaOf[in]()).check("", orObject(json.RawMessage(arguments))); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
	for _, schema := range []string{`{"type":"object"}`, `true`, ``, `{"required":"x"}`, `{"required":[]}`,
		`{"properties":[1],"items":2}`} {
		if s := shapeOf(json.RawMessage(schema)); s != nil {
			t.Errorf("%s requires %+v", schema, s)
		}
	}
}
