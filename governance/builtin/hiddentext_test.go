package builtin_test

import (
	"encoding/json"
	"testing"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
)

func TestHiddenText(t *testing.T) {
	const hides, plain = `{"content":[{"type":"text","text":"a\u200bb","n":12345678901234567890}]}`,
		`{"content":[{"type":"text","text":"ab","n":12345678901234567890}]}`
	for action, want := range map[string]governance.Action{"remove": governance.Modify, "deny": governance.Deny} {
		p, err := builtin.New(governance.Spec{
			Builtin:  "hidden_text",
			Category: governance.Content,
			Config:   map[string]any{"action": action},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			flow governance.Flow
			text string
			want governance.Action
		}{
			{governance.Response, hides, want},
			{governance.Response, plain, governance.Allow},
			{governance.Request, hides, governance.Allow},
		} {
			d, err := p.Decide(t.Context(), tt.flow,
				&governance.Exchange{Request: json.RawMessage(tt.text), Response: json.RawMessage(tt.text)})
			if err != nil || d.Action != tt.want || d.Action == governance.Modify && string(d.JSON) != plain {
				t.Errorf("%s, %s: %+v, %v", action, tt.flow, d, err)
			}
		}
	}
	if _, err := builtin.New(governance.Spec{Builtin: "hidden_text", Category: governance.Audit}); err == nil {
		t.Error("it changes what passes in category audit")
	}
}
