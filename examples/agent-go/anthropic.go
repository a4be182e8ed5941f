package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/exthost/exthost/tools"
)

// anthropic uses the Messages API.
type anthropic struct {
	*api
	name     string // of the model
	messages []message
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type toolResult struct {
	Type    string `json:"type"`
	ID      string `json:"tool_use_id"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitempty"`
}

const maxTokens = 8192 // of one answer

func (m *anthropic) answer(ctx context.Context, in input, offered []*tools.Entry) (output, error) {
	if in.results == nil {
		m.messages = append(m.messages, message{"user", in.task})
	} else {
		var content []toolResult // the API requires all results in one message
		for _, r := range in.results {
			content = append(content, toolResult{"tool_result", r.id, r.text, r.failed})
		}
		m.messages = append(m.messages, message{"user", content})
	}
	var reply struct {
		Content    []json.RawMessage
		StopReason string `json:"stop_reason"`
	}
	header := http.Header{"X-Api-Key": {m.key}, "Anthropic-Version": {"2023-06-01"}}
	err := m.post(ctx, "/v1/messages", header, struct {
		Model     string          `json:"model"`
		MaxTokens int             `json:"max_tokens"`
		System    string          `json:"system"`
		Messages  []message       `json:"messages"`
		Tools     json.RawMessage `json:"tools,omitempty"`
	}{m.name, maxTokens, instructions, m.messages, m.definitions(tools.Anthropic, offered)}, &reply)
	if err != nil {
		return output{}, err
	}
	switch reply.StopReason {
	case "model_context_window_exceeded":
		return output{}, fmt.Errorf("the model's answer is cut short: %s", reply.StopReason)
	case "max_tokens":
		return output{}, fmt.Errorf("the model's answer is longer than %d tokens", maxTokens)
	case "refusal":
		return output{}, fmt.Errorf("%s refuses the task", m.name)
	}
	m.messages = append(m.messages, message{"assistant", reply.Content}) // with all blocks, including unknown ones
	return readBlocks(reply.Content)
}

// readBlocks returns the text and the calls of an answer.
func readBlocks(content []json.RawMessage) (out output, err error) {
	for _, raw := range content {
		var block struct {
			Type, Text, ID, Name string
			Input                json.RawMessage
		}
		if err := json.Unmarshal(raw, &block); err != nil {
			return output{}, err
		}
		switch block.Type {
		case "text":
			out.text += block.Text
		case "tool_use":
			out.calls = append(out.calls, call{block.ID, block.Name, block.Input})
		}
	}
	return out, nil
}
