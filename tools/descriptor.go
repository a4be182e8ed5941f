package tools

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// noSchema is the schema of a tool without an input schema.
const noSchema = `{"type":"object"}`

// ParseDescriptor parses a descriptor as sent by an extension:
//
//	{"name", "description", "input_schema" | "inputSchema", "output_schema"?, "annotations"?, "title"?, …}
//
// Raw keeps the bytes. InputSchema gets the type "object", which MCP requires, if it is missing. The error is of
// kind handshake_invalid. [Check] checks the limits.
func ParseDescriptor(raw json.RawMessage) (protocol.Tool, error) {
	t, _, err := parse(raw)
	return t, err
}

// parse is ParseDescriptor that also returns the members, with keys in MCP's spelling.
func parse(raw json.RawMessage) (protocol.Tool, []member, error) {
	if len(raw) > MaxDescriptor {
		return protocol.Tool{}, nil, invalid("", "%d bytes, at most %d are allowed", len(raw), MaxDescriptor)
	}
	sent, err := members(raw)
	if err != nil {
		return protocol.Tool{}, nil, invalid("", "%w", err)
	}
	t := protocol.Tool{Raw: raw}
	texts := map[string]*string{"name": &t.Name, "title": &t.Title, "description": &t.Description}
	raws := map[string]*json.RawMessage{
		"inputSchema":  &t.InputSchema,
		"outputSchema": &t.OutputSchema,
		"annotations":  &t.Annotations,
	}
	ms := sent[:0]
	for _, m := range sent {
		m.key = canonicalKey(m.key)
		if string(m.value) == "null" && optional[m.key] {
			continue // a strict client would refuse the whole list
		}
		if p, ok := texts[m.key]; ok && json.Unmarshal(m.value, p) != nil {
			return t, nil, invalid(t.Name, "%s must be a string", m.key)
		}
		if p, ok := raws[m.key]; ok {
			if *p != nil {
				return t, nil, invalid(t.Name, "%s is there in both spellings", m.key)
			}
			*p = m.value
		}
		ms = append(ms, m)
	}
	if t.Name == "" {
		return t, nil, invalid("", "no name")
	}
	if t.InputSchema, err = objectSchema(t.InputSchema); err != nil {
		return t, nil, invalid(t.Name, "input schema: %w", err)
	}
	return t, ms, nil
}

// optional are members for which null means absent.
var optional = map[string]bool{"title": true, "description": true, "inputSchema": true,
	"outputSchema": true, "annotations": true, "execution": true, "icons": true, "_meta": true}

func canonicalKey(key string) string {
	switch key {
	case "input_schema":
		return "inputSchema"
	case "output_schema":
		return "outputSchema"
	}
	return key
}

func invalid(tool, format string, args ...any) *protocol.Error {
	e := protocol.Errorf(protocol.HandshakeInvalid, format, args...)
	if tool == "" {
		e.Message = "tool descriptor: " + e.Message
	} else {
		e.Message = fmt.Sprintf("tool %q: %s", display.Cut(tool, MaxToolName), e.Message)
	}
	return e
}

// objectSchema adds the type "object" to raw. For objects, both schemas are equivalent.
func objectSchema(raw json.RawMessage) (json.RawMessage, error) {
	switch string(raw) {
	case "", "null", "true", "{}":
		return json.RawMessage(noSchema), nil
	}
	ms, err := members(raw)
	if err != nil {
		return nil, err
	}
	for i, m := range ms {
		if m.key != "type" {
			continue
		}
		var one string
		var many []string
		switch {
		case json.Unmarshal(m.value, &one) == nil && one == "object":
			return raw, nil
		case json.Unmarshal(m.value, &many) == nil && strings.Contains(" "+strings.Join(many, " ")+" ", " object "):
			ms[i].value = json.RawMessage(`"object"`)
			return object(ms), nil
		}
		return nil, fmt.Errorf(`type must be "object", not %s`, display.Cut(string(m.value), 64))
	}
	return object(append([]member{{"type", json.RawMessage(`"object"`)}}, ms...)), nil
}

func declaredDescriptor(t protocol.Tool) json.RawMessage {
	ms := []member{{"name", rawjson.Quote(t.Name)}}
	for _, m := range []member{{"title", rawjson.Quote(t.Title)}, {"description", rawjson.Quote(t.Description)},
		{"inputSchema", t.InputSchema}, {"outputSchema", t.OutputSchema}, {"annotations", t.Annotations}} {
		if len(m.value) > 0 && string(m.value) != `""` {
			ms = append(ms, m)
		}
	}
	return object(ms)
}

// labelled prefixes a description with the extension's label.
func labelled(extension, description string) string {
	if extension == "" {
		return description
	}
	return strings.TrimSuffix("[ext:"+extension+"] "+description, " ")
}
