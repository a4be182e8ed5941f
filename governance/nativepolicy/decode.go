package nativepolicy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// actions maps the decisions of the protocol to those of the pipeline.
var actions = map[string]governance.Action{
	protocol.DecisionAllow:   governance.Allow,
	protocol.DecisionDeny:    governance.Deny,
	protocol.DecisionModify:  governance.Modify,
	protocol.DecisionRespond: governance.Respond,
	protocol.DecisionAsk:     governance.Ask,
}

var (
	decisions = []string{
		protocol.DecisionAllow,
		protocol.DecisionDeny,
		protocol.DecisionModify,
		protocol.DecisionRespond,
		protocol.DecisionAsk,
	}
	members = []string{"decision", "code", "reason", "data", "retry_after", "expiry", "where", "remember", "request",
		"response"}
)

// decode decodes a [protocol.DecideResult]. A denial is valid even if other members are invalid.
// All other answers are decoded strictly; the error wraps [governance.ErrDecided] if the answer
// states a decision other than allow.
func decode(flow governance.Flow, answer json.RawMessage) (d governance.Decision, err error) {
	if answer, err = rawjson.Object(answer); err != nil {
		return d, err
	}
	decided := false
	for name, value := range rawjson.Members(answer) {
		if !strings.EqualFold(name, "decision") || string(value) == "null" {
			continue
		}
		word, _ := rawjson.Text(value)
		if strings.EqualFold(strings.TrimSpace(word), protocol.DecisionDeny) {
			return denial(answer), nil
		}
		decided = decided || word != protocol.DecisionAllow
	}
	if d, err = decodeStrictly(flow, answer); err != nil && decided {
		return governance.Decision{}, fmt.Errorf("%w: %w", governance.ErrDecided, err)
	}
	return d, err
}

// denial returns the decision for an answer that denies. It leaves out members that cannot be read.
func denial(answer json.RawMessage) governance.Decision {
	d := governance.Decision{Action: governance.Deny, Data: rawjson.Get(answer, "data")}
	d.Code, _ = rawjson.Text(rawjson.Get(answer, "code"))
	d.Reason, _ = rawjson.Text(rawjson.Get(answer, "reason"))
	after := rawjson.Get(answer, "retry_after")
	if text, ok := rawjson.Text(after); ok {
		d.RetryAfter, _ = time.ParseDuration(text)
		after = json.RawMessage(text)
	}
	if n, err := strconv.ParseFloat(string(after), 64); err == nil {
		d.RetryAfter, _ = seconds("retry_after", n)
	}
	d.RetryAfter = max(d.RetryAfter, 0)
	return d
}

// decodeStrictly decodes an answer that is no denial. An unknown or repeated member is an
// error.
func decodeStrictly(flow governance.Flow, answer json.RawMessage) (d governance.Decision, err error) {
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
		return d, fmt.Errorf("%q is no decision%s; say one of %s", r.Decision, suggest(r.Decision, decisions),
			strings.Join(decisions, ", "))
	}
	d = governance.Decision{Action: action, Code: r.Code, Reason: r.Reason, Data: r.Data, Asking: r.Asking}
	if d.Expiry, err = seconds("expiry", r.Expiry); err != nil {
		return governance.Decision{}, err
	}
	if d.JSON, err = replacement(flow, r, has); err != nil {
		return governance.Decision{}, err
	}
	return d, nil
}

// replacement returns the payload in r that replaces the one of the flow. r must hold a payload
// exactly if its decision requires one.
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
	if near := text.Nearest(word, list); near != "" {
		return fmt.Sprintf(" (%s?)", near)
	}
	return ""
}
