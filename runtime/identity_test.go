package runtime

import (
	"encoding/json"
	"testing"
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
