package builtin

import (
	"bytes"
	"context"
	"fmt"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/internal/text/display"
)

// hiddenTextConfig is the config of the built-in policy hidden_text, which removes characters
// from responses that a person does not see but a model reads: control, bidirectional, zero-width
// and tag characters:
//
//	action: remove   # remove (default), or deny responses that hold any
//
// Line breaks and tabs stay. With remove, joiners of emoji and of some scripts are removed
// too. Category content; with action deny, any category.
type hiddenTextConfig struct {
	Action string `json:"action"`
}

type hiddenText struct{ deny bool }

func newHiddenText(s governance.Spec) (governance.Policy, error) {
	var c hiddenTextConfig
	if err := settings.Decode(s.Config, &c); err != nil {
		return nil, err
	}
	if err := settings.OneOf("action", &c.Action, "remove", denied); err != nil {
		return nil, err
	}
	if err := requireContent(s); err != nil && c.Action != denied {
		return nil, err
	}
	return &hiddenText{c.Action == denied}, nil
}

// Decide implements [governance.Policy].
func (p *hiddenText) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	if flow != governance.Response {
		return governance.Decision{}, nil
	}
	if p.deny {
		found := display.FindHidden(x.Response)
		if len(found) == 0 {
			return governance.Decision{}, nil
		}
		return governance.Decision{
			Action: governance.Deny,
			Code:   "hidden_text",
			Reason: fmt.Sprintf("the response holds characters that a reader does not see: %s", found[0]),
		}, nil
	}
	visible := display.VisibleJSON(x.Response)
	if bytes.Equal(visible, x.Response) {
		return governance.Decision{}, nil
	}
	return governance.Decision{
		Action: governance.Modify,
		JSON:   visible,
		Reason: "the response held characters that a reader does not see",
	}, nil
}
