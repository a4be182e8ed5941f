package mcppolicy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Decide implements [governance.Policy]. Its errors are those of the Caller, ExtensionError
// for an error of the plugin, or InvalidResponse.
func (p *Policy) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	h := p.hookOf(flow, x)
	if h == nil {
		return governance.Decision{}, nil
	}
	body := x.Request
	if flow == governance.Response {
		body = outcome(x)
	}
	sent, state := body, p.context(flow, x)
	for i, payload := range h.payloads(x, body) {
		a, err := p.invoke(ctx, h, payload, state)
		if err != nil {
			return governance.Decision{}, err
		}
		if a.stops() {
			return a.denial(), nil
		}
		if a.Context != nil {
			state = mergeContext(state, a.Context)
		}
		if a.Result.Modified == nil {
			continue
		}
		if !p.content { // the pipeline ignores and logs the change
			return governance.Decision{Action: governance.Modify, JSON: a.Result.Modified}, nil
		}
		if body, err = h.merge(x, body, i, a.Result.Modified); err != nil {
			return governance.Decision{}, fmt.Errorf("%w: %w", governance.ErrDecided,
				protocol.Errorf(protocol.InvalidResponse, "the modified_payload of %s cannot be used: %w", h.name, err))
		}
	}
	if flow == governance.Request && !x.Notify {
		p.states.put(x.ID, state)
	}
	if bytes.Equal(body, sent) {
		return governance.Decision{}, nil
	}
	return governance.Decision{Action: governance.Modify, JSON: body}, nil
}

// hookOf returns the hook that the plugin serves for the flow of x, nil for none. The plugin API
// has no form for errors other than those of tools.
func (p *Policy) hookOf(flow governance.Flow, x *governance.Exchange) *hook {
	h := hooks[point{x.Method, flow}]
	if h == nil || !p.hooks[h.name] || x.Failure != nil && x.Method != protocol.MethodToolsCall {
		return nil
	}
	return h
}

// context returns the context for an invocation. In the response flow it is the one that the plugin
// returned in the request flow.
func (p *Policy) context(flow governance.Flow, x *governance.Exchange) json.RawMessage {
	if flow == governance.Response {
		if state := p.states.take(x.ID); state != nil {
			return state
		}
	}
	fresh, _ := json.Marshal(pluginContext{Global: globalContext{ // strings always encode
		RequestID: x.ID,
		User:      orNil(x.Caller),
		ServerID:  orNil(x.Extension),
		Metadata:  globalMetadata{x.Node},
	}})
	return fresh
}

type pluginContext struct {
	State    struct{}      `json:"state"`
	Global   globalContext `json:"global_context"`
	Metadata struct{}      `json:"metadata"`
}

type globalContext struct {
	RequestID string   `json:"request_id"`
	User      *string  `json:"user"`
	TenantID  *string  `json:"tenant_id"`
	ServerID  *string  `json:"server_id"`
	State     struct{} `json:"state"`

	Metadata globalMetadata `json:"metadata"`
}

// globalMetadata holds members that the plugin API does not name.
type globalMetadata struct {
	Node string `json:"node,omitempty"` // the cluster node of the caller; "" for this host
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// mergeContext returns the context sent with the state and metadata that the plugin returned. The
// caller and the server remain as the host sent them.
func mergeContext(sent, got json.RawMessage) json.RawMessage {
	global := rawjson.Get(sent, "global_context")
	if state := member(rawjson.Get(got, "global_context"), "state"); state != nil {
		global = rawjson.Set(global, "state", state)
	}
	edits := map[string]json.RawMessage{"global_context": global}
	for _, key := range []string{"state", "metadata"} {
		if v := member(got, key); v != nil {
			edits[key] = v
		}
	}
	return rawjson.Edit(sent, edits)
}

// answer is the result of invoke_hook.
type answer struct {
	Result  *result         `json:"result"`
	Error   *pluginError    `json:"error"`
	Context json.RawMessage `json:"context"`
}

type result struct {
	Continue   json.RawMessage `json:"continue_processing"` // absent means true, by the plugin API
	Modified   json.RawMessage `json:"modified_payload"`
	Violation  json.RawMessage `json:"violation"`
	Headers    json.RawMessage `json:"http_headers"`
	RetryDelay json.RawMessage `json:"retry_delay_ms"`
}

type pluginError struct {
	Message string          `json:"message"`
	Code    string          `json:"code"`
	Details json.RawMessage `json:"details"`
}

func (p *Policy) invoke(ctx context.Context, h *hook, payload, state json.RawMessage) (*answer, error) {
	b := append(make([]byte, 0, len(payload)+len(state)+len(p.name)+128), `{"hook_type":"`...)
	b = append(append(b, h.name...), `","plugin_name":`...)
	b = append(rawjson.AppendText(b, p.name), `,"payload":`...)
	b = append(append(append(b, payload...), `,"context":`...), state...)
	texts, err := p.call(ctx, "invoke_hook", append(b, '}'))
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		a, err := readAnswer(text)
		if err != nil {
			return nil, protocol.Errorf(protocol.InvalidResponse, "its answer to %s cannot be read: %w", h.name, err)
		}
		if a.Error != nil && !a.stops() {
			e := protocol.Errorf(protocol.ExtensionError, "%s failed: %s", h.name,
				cmp.Or(a.Error.Message, a.Error.Code, "it does not say why"))
			e.Data = a.Error.Details
			return nil, e
		}
		if a.Result != nil {
			return a, nil
		}
	}
	return nil, protocol.Errorf(protocol.InvalidResponse, "its answer to %s has neither a result nor an error", h.name)
}

func readAnswer(text json.RawMessage) (*answer, error) {
	line, err := rawjson.Object(text)
	if err != nil {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil && !a.stops() { // Unmarshal goes on after a member of the wrong type
		return nil, err
	}
	if string(a.Context) == "null" {
		a.Context = nil
	}
	if r := a.Result; r != nil {
		if c := string(r.Continue); c != "" && c != "null" && c != "true" && c != "false" {
			return nil, fmt.Errorf("continue_processing is %.20s, not true or false", c)
		}
		if string(r.Modified) == "null" {
			r.Modified = nil
		}
		if string(r.Violation) == "null" {
			r.Violation = nil
		}
	}
	return &a, nil
}

// stops reports whether a is a denial, even if other members are invalid.
func (a *answer) stops() bool {
	return a.Result != nil && string(a.Result.Continue) == "false"
}

// denial returns the decision for a result that stops the exchange.
func (a *answer) denial() governance.Decision {
	var v struct {
		Reason, Description, Code, Details json.RawMessage
		Headers                            json.RawMessage `json:"http_headers"`
	}
	_ = json.Unmarshal(a.Result.Violation, &v) // an unknown form still denies
	text := func(raw json.RawMessage) string { s, _ := rawjson.Text(raw); return strings.TrimSpace(s) }
	reason, more := text(v.Reason), text(v.Description)
	if reason == "" || more == reason {
		reason, more = more, ""
	}
	if more != "" {
		reason += ": " + more
	}
	d := governance.Decision{Action: governance.Deny, Code: text(v.Code), Reason: reason}
	if details := string(v.Details); details != "null" && details != "{}" {
		d.Data = v.Details
	}
	for _, headers := range []json.RawMessage{v.Headers, a.Result.Headers} {
		for name, value := range rawjson.Members(headers) {
			if n, err := strconv.ParseUint(text(value), 10, 31); err == nil && strings.EqualFold(name, "Retry-After") {
				d.RetryAfter = time.Duration(n) * time.Second
			}
		}
	}
	if n, err := strconv.ParseFloat(string(a.Result.RetryDelay), 64); err == nil && d.RetryAfter == 0 && n > 0 &&
		n < math.MaxInt32 {
		d.RetryAfter = time.Duration(n) * time.Millisecond
	}
	return d
}
