package vendortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

// OpenAI serves the Chat Completions API until the test ends.
func OpenAI(t testing.TB, turns ...Turn) *Vendor {
	return start(t, "/v1", format{
		path:   "/v1/chat/completions",
		header: map[string]string{"Authorization": "Bearer " + Key},
		read:   (*Vendor).readChat,
		write:  writeChoice,
	}, turns)
}

type chatRequest struct {
	Model    string
	Messages []json.RawMessage
	Tools    *[]struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
}

func (v *Vendor) readChat(body []byte) (offered []string, results [][]Result, err error) {
	var r chatRequest
	if err := strict(body, &r); err != nil {
		return nil, nil, err
	}
	if r.Model == "" || r.Tools != nil && len(*r.Tools) == 0 {
		return nil, nil, errors.New("a model is required, and no empty list of tools")
	}
	if r.Tools != nil {
		for _, t := range *r.Tools {
			if t.Type != "function" {
				return nil, nil, fmt.Errorf("a tool of type %q", t.Type)
			}
			if offered, err = definition(t.Function.Name, t.Function.Parameters, offered); err != nil {
				return nil, nil, err
			}
		}
	}
	h := history{rest: r.Messages}
	h.take("system")
	h.take("user")
	for n := range v.answers {
		if answer := h.take("assistant"); h.err == nil {
			h.err = v.checkRepeated(n, answer)
		}
		var of []Result
		for i, c := range v.turns[n].Calls {
			of = append(of, Result{Tool: c.Tool, Text: h.result(callID(n, i))})
		}
		results = append(results, of)
	}
	if h.err == nil && len(h.rest) > 0 {
		h.err = fmt.Errorf("%d messages too many", len(h.rest))
	}
	return offered, results, h.err
}

// history reads messages in order, up to the first unexpected one.
type history struct {
	rest []json.RawMessage
	err  error
}

func (h *history) take(role string) json.RawMessage {
	if h.err != nil {
		return nil
	}
	var m struct{ Role string }
	if len(h.rest) == 0 || json.Unmarshal(h.rest[0], &m) != nil || m.Role != role {
		h.err = fmt.Errorf("there is no message by %s before %s", role, h.rest)
		return nil
	}
	raw := h.rest[0]
	h.rest = h.rest[1:]
	return raw
}

// result reads the message with the result of a call.
func (h *history) result(id string) string {
	raw := h.take("tool")
	var m struct {
		Role, Content string
		ID            string `json:"tool_call_id"`
	}
	if h.err == nil && (strict(raw, &m) != nil || m.ID != id) {
		h.err = fmt.Errorf("this is not the result of %s: %s", id, raw)
	}
	return m.Content
}

func writeChoice(n int, t Turn) (answer, repeated any) {
	message := map[string]any{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}
	stop := "stop"
	if t.Text != "" {
		message["content"] = t.Text
	}
	var calls []map[string]any
	for i, c := range t.Calls {
		calls = append(calls, map[string]any{
			"id":       callID(n, i),
			"type":     "function",
			"function": map[string]any{"name": c.Tool, "arguments": c.Arguments},
		})
	}
	if calls != nil {
		message["tool_calls"], stop = calls, "tool_calls"
	}
	if t.Stop != "" {
		stop = t.Stop
	}
	return map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", n), "object": "chat.completion", "created": 1, "model": "test",
		"choices": []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": stop}},
		"usage":   map[string]int{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	}, message
}
