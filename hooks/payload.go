package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/rawjson"
)

// names are what a matcher at e's point is held against; nil where it is ignored.
func (e *Event) names() []string {
	switch e.Point {
	case BeforeToolCall, AfterToolCall, ToolCallFailed:
		all := []string{e.Tool, "mcp__" + e.Extension + "__" + e.OwnName}
		if _, server, ok := strings.Cut(e.Extension, "."); ok { // as other clients of its .mcp.json call it
			all = append(all, "mcp__"+server+"__"+e.OwnName)
		}
		return all
	case ExtensionLoad, ExtensionState:
		return []string{e.Extension}
	case SessionStart:
		return []string{e.text("source")}
	case SessionEnd:
		return []string{e.text("reason")}
	}
	return nil
}

// text is a member of the payload that is a string.
func (e *Event) text(key string) string {
	s, _ := rawjson.Text(rawjson.Get(e.Payload, key))
	return s
}

// apply lays what the reply changes over the payload. When it fails nothing has
// changed.
func (o *Outcome) apply(p Point, r *Reply) error {
	if r == nil || r.Replace == nil && r.Override == nil {
		return r.valid()
	}
	if err := r.valid(); err != nil {
		return err
	}
	payload := o.Payload
	if r.Replace != nil {
		if err := rawjson.Check(r.Replace); err != nil {
			return fmt.Errorf("its new payload is not JSON: %w", err)
		}
		if !isObject(r.Replace) {
			return errors.New("its new payload is not an object")
		}
		payload = r.Replace
	}
	if r.Override != nil {
		var err error
		if payload, err = overridden(payload, r.Override); err != nil {
			return err
		}
	}
	if p == ToolsSelect {
		payload = narrowed(o.Payload, payload)
	}
	o.Changed = o.Changed || !bytes.Equal(payload, o.Payload)
	o.Payload = payload
	return nil
}

// valid checks what a decoder could not have let through.
func (r *Reply) valid() error {
	if r != nil && r.Decision.strength() < 0 {
		return fmt.Errorf("its decision %q is none of allow, deny and ask", r.Decision)
	}
	return nil
}

// overridden lays the members of override over those of payload.
func overridden(payload, override json.RawMessage) (json.RawMessage, error) {
	if err := rawjson.Check(override); err != nil {
		return nil, fmt.Errorf("its override is not JSON: %w", err)
	}
	if !isObject(override) {
		return nil, errors.New("its override is not an object")
	}
	if !isObject(payload) {
		return nil, errors.New("it overrides members of what is not an object")
	}
	values := make(map[string]json.RawMessage)
	for key, value := range rawjson.Members(override) {
		if string(value) == "null" {
			value = nil
		}
		values[key] = value
	}
	if len(values) == 0 {
		return payload, nil
	}
	return rawjson.Edit(payload, values), nil
}

func isObject(value json.RawMessage) bool {
	i := rawjson.SkipSpace(value, 0)
	return i < len(value) && value[i] == '{'
}

// narrowed is after with those of its tools that before offered: handlers take
// tools away and cannot add any.
func narrowed(before, after json.RawMessage) json.RawMessage {
	offered := elements(rawjson.Get(before, "tools"))
	chosen := slices.DeleteFunc(elements(rawjson.Get(after, "tools")), func(t json.RawMessage) bool {
		return !slices.ContainsFunc(offered, func(o json.RawMessage) bool { return bytes.Equal(o, t) })
	})
	list := append([]byte("["), bytes.Join(raws(chosen), []byte(","))...)
	return rawjson.Set(after, "tools", append(list, ']'))
}

// elements are those of a JSON array; none of anything else.
func elements(array json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(array, &list)
	return list
}

func raws(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i, m := range list {
		out[i] = m
	}
	return out
}

// DecodeReply reads the answer of an extension to a hook: null, or an object of
// abort, reason, override, decision (allow, deny, ask or none) and context, each
// of which may be absent or null. Other members are ignored.
func DecodeReply(answer json.RawMessage) (*Reply, error) {
	if len(bytes.TrimSpace(answer)) == 0 || string(answer) == "null" {
		return nil, nil
	}
	if err := rawjson.Check(answer); err != nil {
		return nil, fmt.Errorf("its answer is not JSON: %w", err)
	}
	if !isObject(answer) {
		return nil, errors.New("its answer is neither null nor an object")
	}
	var r Reply
	var decision string
	for key, value := range rawjson.Members(answer) {
		var err error
		switch key {
		case "abort":
			err = json.Unmarshal(value, &r.Abort)
		case "reason":
			err = json.Unmarshal(value, &r.Reason)
		case "context":
			err = json.Unmarshal(value, &r.Context)
		case "decision":
			err = json.Unmarshal(value, &decision)
		case "override":
			if r.Override = value; string(value) == "null" {
				r.Override = nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("its answer has a wrong %s: %w", key, err)
		}
	}
	if r.Decision = Decision(decision); decision == "none" {
		r.Decision = None
	}
	if r.Override != nil && !isObject(r.Override) {
		return nil, errors.New("its override is not an object")
	}
	return &r, r.valid()
}
