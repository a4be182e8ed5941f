package builtin

import (
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/protocol"
)

func TestApprovalAsks(t *testing.T) {
	spec := governance.Spec{
		Builtin:  "approval",
		Category: governance.Authorization,
		Config:   map[string]any{"reason": "it deletes", "expiry": "90s", "where": "client", "remember": "session"},
	}
	p, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	call := &governance.Exchange{Method: "tools/call"}
	if d := decide(t, p, governance.Request, call); d.Action != governance.Ask || d.Reason != "it deletes" ||
		d.Expiry != 90*time.Second || d.Where != protocol.InClient || d.Remember != protocol.RememberSession {
		t.Errorf("%+v", d)
	}
	if d := decide(t, p, governance.Response, call); d.Action != governance.Allow {
		t.Errorf("about the response: %+v", d)
	}
	list := &governance.Exchange{Method: "tools/list"}
	if d := decide(t, p, governance.Request, list); d.Action != governance.Allow {
		t.Errorf("about a list: %+v", d)
	}
	spec.Match.Methods = []string{"tools/*"}
	if p, err = New(spec); err != nil {
		t.Fatal(err)
	}
	if d := decide(t, p, governance.Request, list); d.Action != governance.Ask {
		t.Errorf("about a list that was asked for: %+v", d)
	}
}

func TestApprovalConfigIsRefused(t *testing.T) {
	for want, s := range map[string]governance.Spec{
		"so its category is authorization": {Category: governance.Content},
		`"soon" is not a duration`: {
			Category: governance.Authorization,
			Config:   map[string]any{"expiry": "soon"},
		},
		`"here" is none of operator, client_then_operator, client`: {
			Category: governance.Authorization,
			Config:   map[string]any{"where": "here"},
		},
		"unknown key, did you mean where?": {
			Category: governance.Authorization,
			Config:   map[string]any{"were": "client"},
		},
	} {
		s.Builtin = "approval"
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
