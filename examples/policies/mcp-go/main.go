// Masks is a policy of kind mcp: an MCP server with the three tools of a plugin server and
// one plugin. It denies arguments that contain a secret word, and masks e-mail addresses in
// results.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const name = "masks"

// plugin describes this plugin to the host, in the answer of get_plugin_configs.
var plugin = map[string]any{
	"name":  name,
	"kind":  "external",
	"mode":  "sequential",
	"hooks": []string{"tool_pre_invoke", "tool_post_invoke"},
}

func main() {
	log.SetOutput(os.Stderr) // stdout carries the protocol
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "0.1.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "get_plugin_configs", Description: "Lists the plugins."},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return text([]any{plugin})
		})
	mcp.AddTool(server, &mcp.Tool{Name: "get_plugin_config", Description: "Describes one plugin."},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Name string `json:"name"`
		}) (*mcp.CallToolResult, any, error) {
			if in.Name != name {
				return text(map[string]any{})
			}
			return text(plugin)
		})
	mcp.AddTool(server, &mcp.Tool{Name: "invoke_hook", Description: "Asks a plugin."}, invoke)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

// invocation is the input of invoke_hook.
type invocation struct {
	Hook    string          `json:"hook_type"`
	Plugin  string          `json:"plugin_name"`
	Payload json.RawMessage `json:"payload"`
	Context json.RawMessage `json:"context"` // the caller, and the state that the plugin returned in the request flow
}

func invoke(_ context.Context, r *mcp.CallToolRequest, _ map[string]any) (*mcp.CallToolResult, any, error) {
	var in invocation // decoded from the raw bytes, so that big numbers survive
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, nil, err
	}
	answer := map[string]any{"plugin_name": name}
	result, err := decide(in)
	if err != nil {
		answer["error"] = map[string]any{"message": err.Error(), "plugin_name": name}
	} else {
		answer["result"] = result
	}
	return text(answer)
}

// result allows the exchange or states the reason for a denial.
type result struct {
	Continue  bool           `json:"continue_processing"`
	Modified  map[string]any `json:"modified_payload,omitempty"`
	Violation *violation     `json:"violation,omitempty"`
}

type violation struct {
	Reason      string `json:"reason"`
	Description string `json:"description"`
	Code        string `json:"code"`
}

var email = regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}`)

func decide(in invocation) (*result, error) {
	var p struct {
		Name   string          `json:"name"`
		Args   json.RawMessage `json:"args"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(in.Payload, &p); err != nil {
		return nil, err
	}
	switch in.Hook {
	case "tool_pre_invoke":
		if strings.Contains(string(p.Args), "hunter2") {
			return &result{Violation: &violation{"a password", "take it out of the arguments", "SECRET"}}, nil
		}
		return &result{Continue: true}, nil
	case "tool_post_invoke":
		masked := email.ReplaceAll(p.Result, []byte("***@***"))
		return &result{Continue: true, Modified: map[string]any{"name": p.Name, "result": json.RawMessage(masked)}}, nil
	}
	return nil, fmt.Errorf("there is no hook %q here", in.Hook)
}

// text returns a tool result of one block of JSON.
func text(v any) (*mcp.CallToolResult, any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(data)}}}, nil, nil
}
