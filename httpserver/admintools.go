package httpserver

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// toolOperations are about tools.
var toolOperations = []operation{
	{method: "GET", path: "/tools", summary: "The catalog, or what one extension has in it",
		query:  []parameter{{"extension", "only this one's"}},
		answer: toolList{}, handle: (*admin).tools},
	{method: "GET", path: "/tools/export", summary: "The definitions of tools as a model vendor takes them",
		query:  []parameter{{"format", "anthropic, openai, openai-chat, gemini or mcp (default)"}, {"extension", "only this one's"}},
		answer: Export{}, handle: (*admin).export},
	{method: "GET", path: "/tools/{name}", summary: "One tool, with its descriptor",
		answer: Tool{}, handle: (*admin).tool},
	{method: "POST", path: "/tools/{name}/call", summary: "Call a tool; the answer is MCP's CallToolResult as the tool gave it",
		body: map[string]any{}, answer: json.RawMessage{}, handle: (*admin).call},
}

// Tool is one tool of the catalog, as the operator sees it.
type Tool struct {
	Name        string          `json:"name"`
	Extension   string          `json:"extension"` // "" for the host's own
	Tool        string          `json:"tool"`      // the extension's own name for it
	Description string          `json:"description"`
	Tokens      int             `json:"tokens"`               // what it costs in every model request, about
	Descriptor  json.RawMessage `json:"descriptor,omitempty"` // as MCP clients get it
}

// ToolOf returns what the operator is told of a tool.
func ToolOf(e *tools.Entry) Tool {
	return Tool{Name: e.Name, Extension: e.Extension, Tool: e.Tool, Description: e.Description, Tokens: e.Tokens()}
}

// toolList is what /tools answers.
type toolList struct {
	Tools []Tool `json:"tools"`
}

// Export is what a model vendor takes, and what it would not.
type Export struct {
	Format      tools.Format     `json:"format"`
	Definitions json.RawMessage  `json:"definitions"` // for the vendor, as it is
	Omitted     []tools.Omission `json:"omitted"`
}

// entries are the tools that a request asks for.
func (a *admin) entries(r *http.Request) []*tools.Entry {
	if id := r.FormValue("extension"); id != "" {
		return a.host.Tools().Extension(id)
	}
	return a.host.Tools().Entries()
}

func (a *admin) tools(w http.ResponseWriter, r *http.Request) error {
	list := toolList{Tools: []Tool{}}
	for _, e := range a.entries(r) {
		list.Tools = append(list.Tools, ToolOf(e))
	}
	return writeJSON(w, http.StatusOK, list)
}

func (a *admin) export(w http.ResponseWriter, r *http.Request) error {
	out := Export{Format: tools.MCP, Omitted: []tools.Omission{}}
	if format := tools.Format(r.FormValue("format")); format != "" {
		if out.Format = format; !slices.Contains(tools.Formats(), format) {
			return protocol.Errorf(protocol.InvalidArguments, "there is no format %q; the formats are %v", format, tools.Formats())
		}
	}
	definitions, omitted := tools.Export(out.Format, a.entries(r))
	out.Definitions, out.Omitted = definitions, append(out.Omitted, omitted...)
	return writeJSON(w, http.StatusOK, out)
}

// startPatience is how long a tool that is not there yet is waited for while
// extensions start.
const startPatience = 5 * time.Second

func (a *admin) tool(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	e, ok := a.host.Tools().Lookup(name)
	if !ok {
		ctx, cancel := context.WithTimeout(r.Context(), startPatience)
		_ = a.host.Ready(ctx) // what is there by then counts
		cancel()
		e, ok = a.host.Tools().Lookup(name)
	}
	if !ok {
		return protocol.Errorf(protocol.ToolNotFound, "there is no tool %q", name)
	}
	t := ToolOf(e)
	t.Descriptor = e.Descriptor
	return writeJSON(w, http.StatusOK, t)
}

// maxArguments bounds the body of a call; no extension takes a longer line.
const maxArguments = 16 << 20

func (a *admin) call(w http.ResponseWriter, r *http.Request) error {
	arguments, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArguments))
	if err != nil {
		return protocol.Errorf(protocol.InvalidArguments, "the arguments cannot be read: %w", err)
	}
	result, err := a.host.Call(r.Context(), r.PathValue("name"), json.RawMessage(arguments))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, json.RawMessage(result))
}
