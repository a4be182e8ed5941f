package toolcall

import (
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// Content is the text of a result, or its structured content when there is no text.
// others names the content that is no text.
func Content(result protocol.ToolResult) (text string, others []string) {
	var r struct {
		Content []struct{ Type, MimeType string } `json:"content"`
	}
	_ = json.Unmarshal(result, &r) // a result without content has none
	for _, c := range r.Content {
		if c.Type != "text" {
			others = append(others, strings.TrimSpace("content of type "+c.Type+" "+c.MimeType))
		}
	}
	if text = result.Text(); text == "" {
		text = string(result.Structured())
	}
	return text, others
}
