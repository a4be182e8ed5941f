package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// emptyObject is sent as the params of a request that has none.
var emptyObject = json.RawMessage(`{}`)

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return emptyObject
	}
	return raw
}

// noMembers reports whether the object raw is empty.
func noMembers(raw json.RawMessage) bool {
	empty := true
	rawjson.Each(raw, func([]byte, json.RawMessage) bool { empty = false; return false })
	return empty
}

// mayHave returns false if raw certainly has no member key. It is much faster than a search for the member.
func mayHave(raw json.RawMessage, key string) bool {
	return bytes.Contains(raw, []byte(key)) || bytes.Contains(raw, []byte(`\u`))
}

// prepend adds a member in front of the others of the object raw, which must not have a member with that key.
func prepend(raw json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 || raw[0] != '{' {
		raw = emptyObject
	}
	out := make([]byte, 0, len(raw)+len(key)+len(value)+4)
	out = append(append(append(out, `{"`...), key...), `":`...)
	out = append(out, value...)
	if rest := bytes.TrimLeft(raw[1:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, raw[1:]...)
}

// textOf returns the value of the string member key; "" if there is none.
func textOf(raw json.RawMessage, key string) (text string) {
	text, _ = rawjson.Text(rawjson.Get(raw, key))
	return text
}

// arrayOf decodes the array member key. A missing member or null is an empty array; ok is false for other types.
func arrayOf[T any](raw json.RawMessage, key string) (list []T, ok bool) {
	value := rawjson.Get(raw, key)
	return list, value == nil || json.Unmarshal(value, &list) == nil
}

// statesIdentity reports whether name is a member of _meta in which only the host may state who calls; see
// [Request].Meta. It ignores case, as some extensions do.
func statesIdentity(name []byte) bool {
	return bytes.EqualFold(name, []byte("agent_id")) || bytes.EqualFold(name, []byte("session_id"))
}

// params returns the params to send, without claims of identity.
func (r *Request) params() json.RawMessage {
	if r.Plain {
		return r.Params
	}
	return WithoutIdentity(orEmpty(r.Params))
}

// WithoutIdentity removes the caller's claims of identity from _meta of params, whatever their case and number.
// Arguments of a tool call are not searched: package dispatch removes their _meta.
func WithoutIdentity(params json.RawMessage) json.RawMessage {
	if !mayHave(params, "_m") && !bytes.Contains(params, []byte("_M")) {
		return params
	}
	if !claimsIdentity(params) {
		return params
	}
	edits := make(map[string]json.RawMessage)
	for name, meta := range rawjson.Members(params) {
		if !strings.EqualFold(name, "_meta") {
			continue
		}
		own := make(map[string]json.RawMessage)
		for member := range rawjson.Members(meta) {
			if statesIdentity([]byte(member)) {
				own[member] = nil
			}
		}
		if len(own) > 0 {
			if meta = rawjson.Edit(meta, own); string(meta) == "{}" {
				meta = nil
			}
		}
		edits[name] = meta
	}
	return rawjson.Edit(params, edits)
}

// claimsIdentity reports whether [WithoutIdentity] has something to remove. Claims are rare, so looking for them does
// not allocate.
func claimsIdentity(params json.RawMessage) (claims bool) {
	rawjson.Each(params, func(name []byte, meta json.RawMessage) bool {
		if bytes.EqualFold(name, []byte("_meta")) {
			rawjson.Each(meta, func(member []byte, _ json.RawMessage) bool {
				claims = statesIdentity(member)
				return !claims
			})
		}
		return !claims
	})
	return claims
}

// notJSON reports whether err of a decoder means that the text is not JSON at all.
func notJSON(err error) bool {
	return errors.Is(err, rawjson.ErrEnd) || errors.Is(err, rawjson.ErrSyntax) || errors.Is(err, rawjson.ErrControl)
}

// mustJSON encodes strings, numbers and valid JSON.
func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("runtime: " + err.Error())
	}
	return raw
}

// cutLine returns at most 2 KiB of a frame, as valid UTF-8 and whole words, for errors and logs.
func cutLine(line []byte) string {
	const most = 2 << 10
	return strings.ToValidUTF8(display.CutWords(string(line[:min(len(line), most+1)]), most), "\uFFFD")
}
