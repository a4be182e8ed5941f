package vendortest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

// Anthropic serves the Messages API until the test ends.
func Anthropic(t testing.TB, turns ...Turn) *Vendor {
	return start(t, "", format{
		path:   "/v1/messages",
		header: map[string]string{"X-Api-Key": Key, "Anthropic-Version": "2023-06-01"},
		read:   (*Vendor).readMessages,
		write:  writeMessage,
	}, turns)
}

type messagesRequest struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	System    string
	Messages  []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct {
		Name, Description string
		InputSchema       json.RawMessage `json:"input_schema"`
	}
}

// strict decodes data into v and rejects unknown members.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func (v *Vendor) readMessages(body []byte) (offered []string, results [][]Result, err error) {
	var r messagesRequest
	if err := strict(body, &r); err != nil {
		return nil, nil, err
	}
	if r.Model == "" || r.MaxTokens < 1 {
		return nil, nil, errors.New("model and max_tokens are required")
	}
	for _, t := range r.Tools {
		if offered, err = definition(t.Name, t.InputSchema, offered); err != nil {
			return nil, nil, err
		}
	}
	if len(r.Messages) != 2*len(v.answers)+1 {
		return nil, nil, fmt.Errorf("%d messages after %d answers", len(r.Messages), len(v.answers))
	}
	for i, m := range r.Messages {
		role := []string{"user", "assistant"}[i%2]
		if m.Role != role {
			return nil, nil, fmt.Errorf("message %d is not by the %s", i, role)
		}
		switch {
		case role == "assistant":
			err = v.checkRepeated(i/2, m.Content)
		case i > 0:
			var of []Result
			of, err = v.readResults(i/2-1, m.Content)
			results = append(results, of)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return offered, results, nil
}

// readResults expects one message with a result for each call of turn n.
func (v *Vendor) readResults(n int, content json.RawMessage) (results []Result, err error) {
	var blocks []struct {
		Type      string
		ToolUseID string `json:"tool_use_id"`
		Content   string
		IsError   bool `json:"is_error"`
	}
	if err := strict(content, &blocks); err != nil {
		return nil, fmt.Errorf("the results of answer %d: %w", n, err)
	}
	calls := v.turns[n].Calls
	if len(blocks) != len(calls) {
		return nil, fmt.Errorf("answer %d has %d calls, and got %d results", n, len(calls), len(blocks))
	}
	for i, b := range blocks {
		if b.Type != "tool_result" || b.ToolUseID != callID(n, i) {
			return nil, fmt.Errorf("block %d is %s %s, not the result of %s", i, b.Type, b.ToolUseID, callID(n, i))
		}
		results = append(results, Result{calls[i].Tool, b.Content, b.IsError})
	}
	return results, nil
}

func writeMessage(n int, t Turn) (answer, repeated any) {
	// A loop must also repeat blocks of a type that it does not know.
	content := []map[string]any{{"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}}
	stop := "end_turn"
	if t.Text != "" {
		content = append(content, map[string]any{"type": "text", "text": t.Text})
	}
	for i, c := range t.Calls {
		content = append(content,
			map[string]any{
				"type":  "tool_use",
				"id":    callID(n, i),
				"name":  c.Tool,
				"input": json.RawMessage(c.Arguments),
			})
		stop = "tool_use"
	}
	if t.Stop != "" {
		stop = t.Stop
	}
	return map[string]any{
		"id": fmt.Sprintf("msg_%d", n), "type": "message", "role": "assistant", "model": "test", "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
	}, content
}
