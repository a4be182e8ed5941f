package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// apply applies the changes of a reply to the payload. On an error the payload stays
// unchanged.
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
		if !rawjson.IsObject(r.Replace) {
			return errors.New("its new payload is not an object")
		}
		payload = r.Replace
	}
	if r.Override != nil {
		var err error
		if payload, err = overrideMembers(payload, r.Override); err != nil {
			return err
		}
	}
	if p == ToolsSelect {
		payload = withoutAdded(o.Payload, payload)
	}
	o.Changed = o.Changed || !bytes.Equal(payload, o.Payload)
	o.Payload = payload
	return nil
}

// valid checks the values that Go code may set wrongly.
func (r *Reply) valid() error {
	if r != nil && r.Decision.strength() < 0 {
		return fmt.Errorf("its decision %q is none of allow, deny and ask", r.Decision)
	}
	return nil
}

// overrideMembers replaces members of payload by those of override.
func overrideMembers(payload, override json.RawMessage) (json.RawMessage, error) {
	if err := rawjson.Check(override); err != nil {
		return nil, fmt.Errorf("its override is not JSON: %w", err)
	}
	if !rawjson.IsObject(override) {
		return nil, errors.New("its override is not an object")
	}
	if !rawjson.IsObject(payload) {
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

// withoutAdded removes from after every tool that before does not have, because handlers cannot add tools.
func withoutAdded(before, after json.RawMessage) json.RawMessage {
	offered := elements(rawjson.Get(before, "tools"))
	chosen := slices.DeleteFunc(elements(rawjson.Get(after, "tools")), func(t json.RawMessage) bool {
		return !slices.ContainsFunc(offered, func(o json.RawMessage) bool { return bytes.Equal(o, t) })
	})
	return rawjson.Set(after, "tools", rawjson.AppendList(nil, chosen))
}

// elements returns the elements of a JSON array, none for any other value.
func elements(array json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(array, &list)
	return list
}

// DecodeReply decodes the answer of an extension: null, or an object with the optional
// members abort, reason, override, decision (allow, deny, ask or none), where, remember and context,
// each of which may be null. Other members are ignored.
func DecodeReply(answer json.RawMessage) (*Reply, error) {
	if len(bytes.TrimSpace(answer)) == 0 || string(answer) == "null" {
		return nil, nil
	}
	if err := rawjson.Check(answer); err != nil {
		return nil, fmt.Errorf("its answer is not JSON: %w", err)
	}
	if !rawjson.IsObject(answer) {
		return nil, errors.New("its answer is neither null nor an object")
	}
	var r Reply
	known := map[string]any{"abort": &r.Abort, "reason": &r.Reason, "context": &r.Context, "decision": &r.Decision}
	for key, value := range rawjson.Members(answer) {
		switch to, ok := known[key]; {
		case ok:
			if err := json.Unmarshal(value, to); err != nil {
				return nil, fmt.Errorf("its answer has a member %s of the wrong type: %w", key, err)
			}
		// an unknown word asks operators about one call: as an error, it could let the call pass unasked
		case key == "where":
			_ = json.Unmarshal(value, &r.Asking.Where)
		case key == "remember":
			_ = json.Unmarshal(value, &r.Asking.Remember)
		case key == "override":
			if r.Override = value; string(value) == "null" {
				r.Override = nil
			}
		}
	}
	if r.Decision == "none" {
		r.Decision = None
	}
	if r.Override != nil && !rawjson.IsObject(r.Override) {
		return nil, errors.New("its override is not an object")
	}
	return &r, r.valid()
}
