package runtime

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/protocol"
)

// A decoder may merge repeated members, as encoding/json does with maps, or ignore the case of names.
func TestNoSpellingStatesAnIdentity(t *testing.T) {
	for _, params := range []string{
		`{"_meta":{"agent_id":"forged"},"_meta":{"a":1}}`,
		`{"_meta":{"agent_id":"forged"},"_meta":1}`,
		`{"_meta":{"Agent_ID":"forged"}}`,
		`{"_META":{"agent_id":"forged"}}`,
		`{"_m\u0065ta":{"agent\u005fid":"forged"}}`,
		`{"_meta":{"session_id":"forged","agent_id":"x"},"b":2}`,
	} {
		out := WithoutIdentity(json.RawMessage(params))
		var id struct {
			Meta struct {
				Agent   string `json:"agent_id"`
				Session string `json:"session_id"`
			} `json:"_meta"`
		}
		_ = json.Unmarshal(out, &id)
		if id.Meta.Agent != "" || id.Meta.Session != "" {
			t.Errorf("%s became %s", params, out)
		}
	}
}

// TestPlainRequest checks that a request which is known to have no _meta is sent as it is found to have none.
func TestPlainRequest(t *testing.T) {
	s := spec(t, "")
	modern := newMCP(&s)
	modern.modern = true
	for name, d := range map[string]dialect{"native": &native{}, "mcp": newMCP(&s), "mcp2026": modern} {
		for _, meta := range []json.RawMessage{nil, json.RawMessage(`{"agent_id":"a"}`)} {
			r := Request{
				Method: protocol.MethodToolsCall,
				Params: json.RawMessage(`{"name":"echo","arguments":{"text":"a text"}}`),
				Meta:   meta,
			}
			_, want, err := d.outgoing(&r, callerToken(&r))
			if err != nil {
				t.Fatal(err)
			}
			r.Plain = true
			if _, got, _ := d.outgoing(&r, callerToken(&r)); string(got) != string(want) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}
