package mcppolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// hook is a point where a plugin is asked.
type hook struct {
	name string
	flow governance.Flow
	// payloads are what the plugin is asked about in an exchange, one after the
	// other; mostly it is one.
	payloads func(x *governance.Exchange, body json.RawMessage) []json.RawMessage
	// merge returns body, the params or the outcome, with what the plugin made of
	// the payload sent as the i-th.
	merge func(x *governance.Exchange, body json.RawMessage, i int, changed json.RawMessage) (json.RawMessage, error)
}

// point is where an exchange is.
type point struct {
	method string
	flow   governance.Flow
}

// hooks are those that an exchange of this host can come by.
var hooks = map[point]*hook{
	{protocol.MethodToolsCall, governance.Request}: {name: "tool_pre_invoke",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return one("name", text(x.Tool), "args", orEmpty(rawjson.Get(body, "arguments")))
		},
		merge: mergeArguments("name")},
	{protocol.MethodToolsCall, governance.Response}: {name: "tool_post_invoke",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return one("name", text(x.Tool), "result", toolResult(x, body))
		},
		merge: mergeResult},
	{protocol.MethodPromptsGet, governance.Request}: {name: "prompt_pre_fetch",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return one("prompt_id", rawjson.Get(body, "name"), "args", orEmpty(rawjson.Get(body, "arguments")))
		},
		merge: mergeArguments("prompt_id")},
	{protocol.MethodPromptsGet, governance.Response}: {name: "prompt_post_fetch",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return one("prompt_id", rawjson.Get(x.Request, "name"), "result", body)
		},
		merge: mergeResult},
	{protocol.MethodResourcesRead, governance.Request}: {name: "resource_pre_fetch",
		payloads: func(x *governance.Exchange, body json.RawMessage) []json.RawMessage {
			return one("uri", rawjson.Get(body, "uri"), "metadata", json.RawMessage("{}"))
		},
		merge: mergeURI},
	{protocol.MethodResourcesRead, governance.Response}: {name: "resource_post_fetch", payloads: contentPayloads, merge: mergeContent},
}

// byName is hooks by name.
var byName = func() map[string]*hook {
	m := make(map[string]*hook, len(hooks))
	for at, h := range hooks {
		h.flow = at.flow
		m[h.name] = h
	}
	return m
}()

func hookNames() []string { return slices.Sorted(maps.Keys(byName)) }

// outcome is what came of an exchange: its result, or the error that took its place
// as {code, message, data}.
func outcome(x *governance.Exchange) json.RawMessage {
	if x.Response != nil || x.Failure == nil {
		return x.Response
	}
	failure, _ := json.Marshal(x.Failure.Wire()) // its Data is valid, or Wire left it out
	return failure
}

// toolResult is the outcome of a tool as plugins know it: with an error, a result
// that says so.
func toolResult(x *governance.Exchange, body json.RawMessage) json.RawMessage {
	if x.Failure == nil {
		return body
	}
	b := append([]byte(`{"content":[{"type":"text","text":`), orNull(rawjson.Get(body, "message"))...)
	b = append(b, `}],"isError":true`...)
	if data := rawjson.Get(body, "data"); data != nil {
		b = append(append(b, `,"structuredContent":`...), data...)
	}
	return append(b, '}')
}

// one is a payload of two members; a nil value is null.
func one(key1 string, value1 json.RawMessage, key2 string, value2 json.RawMessage) []json.RawMessage {
	b := append(make([]byte, 0, len(value1)+len(value2)+len(key1)+len(key2)+16), `{"`...)
	b = append(append(append(b, key1...), `":`...), orNull(value1)...)
	b = append(append(append(append(b, `,"`...), key2...), `":`...), orNull(value2)...)
	return []json.RawMessage{append(b, '}')}
}

func text(s string) json.RawMessage { return rawjson.AppendText(nil, s) }

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

// given returns the member of a changed payload, nil when it is absent or null.
func given(changed json.RawMessage, key string) json.RawMessage {
	if v := rawjson.Get(changed, key); string(v) != "null" {
		return v
	}
	return nil
}

// mergeArguments takes other arguments. Who is called stays as it was: routing is
// not a plugin's, and to call what it wanted changed would be worse than an error.
func mergeArguments(who string) func(x *governance.Exchange, body json.RawMessage, i int, changed json.RawMessage) (json.RawMessage, error) {
	return func(x *governance.Exchange, body json.RawMessage, _ int, changed json.RawMessage) (json.RawMessage, error) {
		was := x.Tool
		if was == "" {
			was, _ = rawjson.Text(rawjson.Get(body, "name"))
		}
		if v := given(changed, who); v != nil {
			if is, ok := rawjson.Text(v); !ok || is != was {
				return nil, fmt.Errorf("it changed the %s to %s; only the args can be changed", who, v)
			}
		}
		args := given(changed, "args")
		if args == nil {
			return body, nil
		}
		if _, err := rawjson.Object(args); err != nil {
			return nil, fmt.Errorf("its args: %w", err)
		}
		return rawjson.Set(body, "arguments", args), nil
	}
}

func mergeResult(x *governance.Exchange, body json.RawMessage, _ int, changed json.RawMessage) (json.RawMessage, error) {
	result := given(changed, "result")
	if result == nil {
		return body, nil
	}
	if _, err := rawjson.Object(result); err != nil {
		return nil, fmt.Errorf("its result: %w", err)
	}
	if x.Failure == nil {
		return result, nil
	}
	return rawjson.Edit(body, map[string]json.RawMessage{ // an error stays one
		"message": text(protocol.ToolResult(result).Text()), "data": given(result, "structuredContent"),
	}), nil
}

func mergeURI(_ *governance.Exchange, body json.RawMessage, _ int, changed json.RawMessage) (json.RawMessage, error) {
	uri := given(changed, "uri")
	if uri == nil {
		return body, nil
	}
	if _, ok := rawjson.Text(uri); !ok {
		return nil, errors.New("its uri is not a string")
	}
	return rawjson.Set(body, "uri", uri), nil
}
