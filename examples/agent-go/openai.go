package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/exthost/exthost/tools"
)

// openai speaks the Chat Completions API, as many other servers do.
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

// completion is the part of an answer that the loop acts upon.
type completion struct {
	Choices []struct {
		Message      json.RawMessage
		FinishReason string `json:"finish_reason"`
	}
}

func (m *openai) answer(ctx context.Context, news input, offered []*tools.Entry) (output, error) {
	if news.results == nil {
		m.messages = append(m.messages, message{"system", instructions}, message{"user", news.task})
	}
	for _, r := range news.results {
		if r.failed { // the API has no other sign for it
			r.text = "error: " + r.text
		}
		m.messages = append(m.messages, toolMessage{"tool", r.id, r.text})
	}
	var said completion
	err := m.post(ctx, "/chat/completions", http.Header{"Authorization": {"Bearer " + m.key}}, struct {
		Model    string          `json:"model"`
		Messages []any           `json:"messages"`
		Tools    json.RawMessage `json:"tools,omitempty"`
	}{m.name, m.messages, m.definitions(tools.OpenAIChat, offered)}, &said)
	if err != nil {
		return output{}, err
	}
	if len(said.Choices) == 0 {
		return output{}, errors.New("the model's API answers with no choices")
	}
	first := said.Choices[0]
	switch first.FinishReason {
	case "length", "content_filter":
		return output{}, fmt.Errorf("the model's answer is cut short: %s", first.FinishReason)
	}
	m.messages = append(m.messages, first.Message) // as it came, whatever it holds
	return readMessage(first.Message)
}

// readMessage takes the text and the calls out of an answer.
func readMessage(raw json.RawMessage) (output, error) {
	var said struct {
		Content, Refusal string
		ToolCalls        []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return output{}, err
	}
	if said.Refusal != "" {
		return output{}, fmt.Errorf("the model refuses the task: %s", said.Refusal)
	}
	out := output{text: said.Content}
	for _, c := range said.ToolCalls {
		// A text, in which the model may have written anything; nothing stands for {}.
		out.calls = append(out.calls, call{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments)})
	}
	return out, nil
}
