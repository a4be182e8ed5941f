package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/exthost/exthost/tools"
)

// openai uses the Chat Completions API, which many other servers offer too.
type openai struct {
	*api
	name     string // of the model
	messages []any
}

type toolMessage struct {
	Role    string `json:"role"`
	ID      string `json:"tool_call_id"`
	Content string `json:"content"`
}

// completion is the used part of an answer.
type completion struct {
	Choices []struct {
		Message      json.RawMessage
		FinishReason string `json:"finish_reason"`
	}
}

func (m *openai) answer(ctx context.Context, in input, offered []*tools.Entry) (output, error) {
	if in.results == nil {
		m.messages = append(m.messages, message{"system", instructions}, message{"user", in.task})
	}
	for _, r := range in.results {
		if r.failed { // the API has no member for errors
			r.text = "error: " + r.text
		}
		m.messages = append(m.messages, toolMessage{"tool", r.id, r.text})
	}
	var reply completion
	err := m.post(ctx, "/chat/completions", http.Header{"Authorization": {"Bearer " + m.key}}, struct {
		Model    string          `json:"model"`
		Messages []any           `json:"messages"`
		Tools    json.RawMessage `json:"tools,omitempty"`
	}{m.name, m.messages, m.definitions(tools.OpenAIChat, offered)}, &reply)
	if err != nil {
		return output{}, err
	}
	if len(reply.Choices) == 0 {
		return output{}, errors.New("the model's API answers with no choices")
	}
	first := reply.Choices[0]
	switch first.FinishReason {
	case "length", "content_filter":
		return output{}, fmt.Errorf("the model's answer is cut short: %s", first.FinishReason)
	}
	m.messages = append(m.messages, first.Message) // with all members, including unknown ones
	return readMessage(first.Message)
}

// readMessage returns the text and the calls of an answer.
func readMessage(raw json.RawMessage) (output, error) {
	var reply struct {
		Content, Refusal string
		ToolCalls        []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return output{}, err
	}
	if reply.Refusal != "" {
		return output{}, fmt.Errorf("the model refuses the task: %s", reply.Refusal)
	}
	out := output{text: reply.Content}
	for _, c := range reply.ToolCalls {
		// Arguments is a string that the model wrote, so it may be invalid JSON. An empty
		// one means {}.
		out.calls = append(out.calls, call{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments)})
	}
	return out, nil
}
