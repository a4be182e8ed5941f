package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/exthost/exthost/protocol"
)

// noSchema is what a tool without an input schema accepts.
const noSchema = `{"type":"object"}`

// ParseDescriptor reads a descriptor as an extension sends it:
//
//	{"name", "description", "input_schema" | "inputSchema", "output_schema"?, "annotations"?, "title"?, …}
//
// Raw keeps the bytes; InputSchema is what MCP requires of it, a schema with
// "type": "object", which is added where it is missing since arguments always
// are an object. The error is of kind handshake_invalid and means that this
// descriptor cannot be used. Limits are [Check]'s business.
func ParseDescriptor(raw json.RawMessage) (protocol.Tool, error) {
	t, _, err := parse(raw)
	return t, err
}

// parse is ParseDescriptor that keeps the members for rewriting, with their keys
// spelled MCP's way.
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
	raws := map[string]*json.RawMessage{"inputSchema": &t.InputSchema, "outputSchema": &t.OutputSchema, "annotations": &t.Annotations}
	ms := sent[:0]
	for _, m := range sent {
		m.key = canonicalKey(m.key)
		if string(m.value) == "null" && optional[m.key] {
			continue // a client that checks types would refuse the whole list for it
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

// optional are the members for which null means the same as leaving them out.
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
		e.Message = fmt.Sprintf("tool %q: %s", cut(tool, MaxToolName), e.Message)
	}
	return e
}

// objectSchema returns raw as a schema whose type is "object", changing as little
// as that takes and nothing of what it accepts among objects.
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
		return nil, fmt.Errorf(`type must be "object", not %s`, cut(string(m.value), 64))
	}
	return object(append([]member{{"type", json.RawMessage(`"object"`)}}, ms...)), nil
}

// declared is the descriptor of a tool that was not sent but declared in a file.
func declared(t protocol.Tool) json.RawMessage {
	ms := []member{{"name", quote(t.Name)}}
	for _, m := range []member{{"title", quote(t.Title)}, {"description", quote(t.Description)},
		{"inputSchema", t.InputSchema}, {"outputSchema", t.OutputSchema}, {"annotations", t.Annotations}} {
		if len(m.value) > 0 && string(m.value) != `""` {
			ms = append(ms, m)
		}
	}
	return object(ms)
}

// label marks a description with the extension it comes from.
func label(extension, description string) string {
	if extension == "" {
		return description
	}
	return strings.TrimSuffix("[ext:"+extension+"] "+description, " ")
}

// visible removes what a reader cannot see but a model can be steered by:
// control, bidirectional, zero-width and tag characters. Newlines and tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || invisible(r) {
			return -1
		}
		return r
	}, s)
}

func invisible(r rune) bool { return unicode.Is(unseen, r) }

// unseen are the format characters and selectors that have no glyph.
var unseen = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, // soft hyphen
		{Lo: 0x034f, Hi: 0x034f, Stride: 1}, // combining grapheme joiner
		{Lo: 0x061c, Hi: 0x061c, Stride: 1}, // Arabic letter mark
		{Lo: 0x115f, Hi: 0x1160, Stride: 1}, // Hangul fillers
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, // Khmer inherent vowels
		{Lo: 0x180b, Hi: 0x180f, Stride: 1}, // Mongolian selectors
		{Lo: 0x200b, Hi: 0x200f, Stride: 1}, // zero width, direction marks
		{Lo: 0x202a, Hi: 0x202e, Stride: 1}, // embeddings and overrides
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, // word joiner, isolates
		{Lo: 0x3164, Hi: 0x3164, Stride: 1}, // Hangul filler
		{Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, // variation selectors
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, // byte order mark
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, // halfwidth Hangul filler
		{Lo: 0xfff0, Hi: 0xfffb, Stride: 1}, // specials
	},
	R32: []unicode.Range32{
		{Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, // musical format controls
		{Lo: 0xe0000, Hi: 0xe0fff, Stride: 1}, // tags, more variation selectors
	},
	LatinOffset: 1,
}
