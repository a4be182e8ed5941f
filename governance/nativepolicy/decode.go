package nativepolicy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/nearest"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// actions maps the decisions of the protocol to those of the pipeline.
var actions = map[string]governance.Action{
	protocol.DecisionAllow: governance.Allow, protocol.DecisionDeny: governance.Deny, protocol.DecisionModify: governance.Modify,
	protocol.DecisionRespond: governance.Respond, protocol.DecisionAsk: governance.Ask,
}

var (
	decisions = []string{protocol.DecisionAllow, protocol.DecisionDeny, protocol.DecisionModify, protocol.DecisionRespond, protocol.DecisionAsk}
	members   = []string{"decision", "code", "reason", "data", "retry_after", "expiry", "request", "response"}
)

// decode decodes a [protocol.DecideResult] strictly.
func decode(flow governance.Flow, answer json.RawMessage) (d governance.Decision, err error) {
	if answer, err = rawjson.Object(answer); err != nil {
		return d, err
	}
	has := make(map[string]bool)
	for name, value := range rawjson.Members(answer) {
		_, seen := has[name]
		switch {
		case !slices.Contains(members, name):
			return d, fmt.Errorf("%q has no meaning in it%s", name, suggest(name, members))
		case seen:
			return d, fmt.Errorf("it says %s twice", name)
		}
		has[name] = string(value) != "null"
	}
	var r protocol.DecideResult
	if err := json.Unmarshal(answer, &r); err != nil {
		return d, err
	}
	if !has["decision"] {
		return d, fmt.Errorf("it says no decision; say one of %s", strings.Join(decisions, ", "))
	}
	action, ok := actions[r.Decision]
	if !ok {
		return d, fmt.Errorf("%q is no decision%s; say one of %s", r.Decision, suggest(r.Decision, decisions), strings.Join(decisions, ", "))
	}
	d = governance.Decision{Action: action, Code: r.Code, Reason: r.Reason, Data: r.Data}
	if d.RetryAfter, err = seconds("retry_after", r.RetryAfter); err != nil {
		return governance.Decision{}, err
	}
	if d.Expiry, err = seconds("expiry", r.Expiry); err != nil {
		return governance.Decision{}, err
	}
	if d.JSON, err = replacement(flow, r, has); err != nil {
		return governance.Decision{}, err
	}
	return d, nil
}

// replacement returns the new payload. r must hold exactly the one that its decision and
// the flow require.
func replacement(flow governance.Flow, r protocol.DecideResult, has map[string]bool) (json.RawMessage, error) {
	want := ""
	switch r.Decision {
	case protocol.DecisionModify:
		want = string(flow)
	case protocol.DecisionRespond:
		if flow != governance.Request {
			return nil, fmt.Errorf("%s is for the request flow; this is the response", r.Decision)
		}
		want = "response"
	}
	var out json.RawMessage
	for _, m := range []struct {
		name  string
		value json.RawMessage
	}{{"request", r.Request}, {"response", r.Response}} {
		switch {
		case m.name != want && has[m.name]:
			return nil, fmt.Errorf("%s in the %s flow goes without a %s", r.Decision, flow, m.name)
		case m.name != want:
		case !has[m.name]:
			return nil, fmt.Errorf("%s in the %s flow needs a %s", r.Decision, flow, m.name)
		default:
			out = m.value // the pipeline validates its content
		}
	}
	return out, nil
}

func seconds(name string, n float64) (time.Duration, error) {
	if n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%s is a number of seconds from now, not %v", name, n)
	}
	return time.Duration(n * float64(time.Second)), nil
}

func suggest(word string, list []string) string {
	if near := nearest.Of(word, list); near != "" {
		return fmt.Sprintf(" (%s?)", near)
	}
	return ""
}
