package mcppolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

type hook struct {
	name string
	flow governance.Flow
	// payloads returns the payloads of an exchange, in the order of the invocations; most
	// hooks have one.
	payloads func(x *governance.Exchange, body json.RawMessage) []json.RawMessage
	// merge returns body with the changes to the i-th payload. body is the params or the outcome.
	merge func(x *governance.Exchange, body json.RawMessage, i int, changed json.RawMessage) (json.RawMessage, error)
}

// point is a method and flow.
type point struct {
	method string
	flow   governance.Flow
}

// hooks are the hooks that exchanges of this host invoke.
var hooks = map[point]*hook{
	{protocol.MethodToolsCall, governance.Request}: {
		name: "tool_pre_invoke",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return payloadOf("name", rawjson.Quote(x.Tool), "args", orEmpty(rawjson.Get(body, "arguments")))
		},
		merge: mergeArguments("name"),
	},
	{protocol.MethodToolsCall, governance.Response}: {
		name: "tool_post_invoke",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return payloadOf("name", rawjson.Quote(x.Tool), "result", toolResult(x, body))
		},
		merge: mergeResult,
	},
	{protocol.MethodPromptsGet, governance.Request}: {
		name: "prompt_pre_fetch",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return payloadOf("prompt_id", rawjson.Get(body, "name"), "args", orEmpty(rawjson.Get(body, "arguments")))
		},
		merge: mergeArguments("prompt_id"),
	},
	{protocol.MethodPromptsGet, governance.Response}: {
		name: "prompt_post_fetch",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return payloadOf("prompt_id", rawjson.Get(x.Request, "name"), "result", body)
		},
		merge: mergeResult,
	},
	{protocol.MethodResourcesRead, governance.Request}: {
		name: "resource_pre_fetch",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return payloadOf("uri", rawjson.Get(body, "uri"), "metadata", json.RawMessage("{}"))
		},
		merge: mergeURI,
	},
	{protocol.MethodResourcesRead, governance.Response}: {
		name:     "resource_post_fetch",
		payloads: contentPayloads,
		merge:    mergeContent,
	},
}

// byName maps names to hooks.
var byName = func() map[string]*hook {
	m := make(map[string]*hook, len(hooks))
	for at, h := range hooks {
		h.flow = at.flow
		m[h.name] = h
	}
	return m
}()

func hookNames() []string { return slices.Sorted(maps.Keys(byName)) }

// toolResult returns the outcome of a tool in the form of the plugin API: an error becomes
// a result with isError.
func toolResult(x *governance.Exchange, body json.RawMessage) json.RawMessage {
	if x.Failure == nil {
		return body
	}
	return errorResult(body)
}

// payloadOf returns a payload of two members; a nil value becomes null.
func payloadOf(key1 string, value1 json.RawMessage, key2 string, value2 json.RawMessage) []json.RawMessage {
	b := append(make([]byte, 0, len(value1)+len(value2)+len(key1)+len(key2)+16), `{"`...)
	b = append(append(append(b, key1...), `":`...), orNull(value1)...)
	b = append(append(append(append(b, `,"`...), key2...), `":`...), orNull(value2)...)
	return []json.RawMessage{append(b, '}')}
}

func orNull(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return json.RawMessage("null")
	}
	return v
}

func orEmpty(v json.RawMessage) json.RawMessage {
	if len(v) == 0 || string(v) == "null" {
		return json.RawMessage("{}")
	}
	return v
}

// member returns a member of a changed payload, nil when it is absent or null.
func member(changed json.RawMessage, key string) json.RawMessage {
	if v := rawjson.Get(changed, key); string(v) != "null" {
		return v
	}
	return nil
}

// mergeArguments returns a merge function that replaces the arguments. A changed name is an error:
// a plugin cannot choose another tool or prompt, and to ignore the change would call one that the
// plugin did not intend.
func mergeArguments(nameKey string,
) func(x *governance.Exchange, body json.RawMessage, i int, changed json.RawMessage) (json.RawMessage, error) {
	return func(x *governance.Exchange, body json.RawMessage, _ int, changed json.RawMessage) (json.RawMessage, error) {
		called := x.Tool
		if called == "" {
			called, _ = rawjson.Text(rawjson.Get(body, "name"))
		}
		if v := member(changed, nameKey); v != nil {
			if is, ok := rawjson.Text(v); !ok || is != called {
				return nil, fmt.Errorf("it changed the %s to %s; only the args can be changed", nameKey, v)
			}
		}
		args := member(changed, "args")
		if args == nil {
			return body, nil
		}
		if _, err := rawjson.Object(args); err != nil {
			return nil, fmt.Errorf("its args: %w", err)
		}
		return rawjson.Set(body, "arguments", args), nil
	}
}

func mergeResult(x *governance.Exchange, body json.RawMessage, _ int, changed json.RawMessage,
) (json.RawMessage, error) {
	result := member(changed, "result")
	if result == nil {
		return body, nil
	}
	if _, err := rawjson.Object(result); err != nil {
		return nil, fmt.Errorf("its result: %w", err)
	}
	if x.Failure == nil {
		return result, nil
	}
	return editError(body, result), nil
}

func mergeURI(_ *governance.Exchange, body json.RawMessage, _ int, changed json.RawMessage) (json.RawMessage, error) {
	uri := member(changed, "uri")
	if uri == nil {
		return body, nil
	}
	if _, ok := rawjson.Text(uri); !ok {
		return nil, errors.New("its uri is not a string")
	}
	return rawjson.Set(body, "uri", uri), nil
}

// contents returns the contents of a resource's result.
func contents(result json.RawMessage) (list []json.RawMessage) {
	_ = json.Unmarshal(rawjson.Get(result, "contents"), &list) // no list: no contents
	return list
}

// contentPayloads returns one payload per content, because plugins handle one at a time. Each
// content has the member names of both MCP (mimeType) and the plugin API (type and mime_type).
func contentPayloads(x *governance.Exchange, body json.RawMessage) (payloads []json.RawMessage) {
	uri := rawjson.Get(x.Request, "uri")
	for _, c := range contents(body) {
		also := map[string]json.RawMessage{"type": json.RawMessage(`"resource"`)}
		if mime := rawjson.Get(c, "mimeType"); mime != nil {
			also["mime_type"] = mime
		}
		payloads = append(payloads, payloadOf("uri", uri, "content", rawjson.Edit(c, also))...)
	}
	return payloads
}

// mergeContent replaces the text or blob of a content with the changed one. The other members
// remain as the extension sent them.
func mergeContent(_ *governance.Exchange, body json.RawMessage, i int, changed json.RawMessage,
) (json.RawMessage, error) {
	content := member(changed, "content")
	if content == nil {
		return body, nil
	}
	if _, err := rawjson.Object(content); err != nil {
		return nil, fmt.Errorf("its content: %w", err)
	}
	edits := make(map[string]json.RawMessage, 2)
	for _, key := range []string{"text", "blob"} {
		edits[key] = member(content, key)
		if _, ok := rawjson.Text(edits[key]); edits[key] != nil && !ok {
			return nil, fmt.Errorf("the %s of its content is not a string", key)
		}
	}
	list := contents(body)
	list[i] = rawjson.Edit(list[i], edits)
	return rawjson.Set(body, "contents", rawjson.AppendList(nil, list)), nil
}
