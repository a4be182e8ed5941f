package httpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/listing/toolsearch"
	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
	"github.com/exthost/exthost/tools"
)

var extensionOperations = []operation{
	{
		method:  "GET",
		path:    "/extensions",
		summary: "All extensions, including those that do not run",
		answer:  extensionList{},
		handle: func(h *exthost.Host, _ *http.Request) (any, error) {
			return extensionList{h.Admin().Status().Extensions}, nil
		},
	},
	{
		method:  "GET",
		path:    "/extensions/{id}",
		summary: "One extension",
		answer:  status.Extension{},
		handle:  getExtension,
	},
	{
		method:  "GET",
		path:    "/skills",
		summary: "The skills that MCP servers declare by themselves; those of folders are in /extensions",
		answer:  skillList{},
		handle:  declaredSkills,
	},
	{
		method: "POST",
		path:   "/extensions/{id}/restart",
		summary: "Replace the processes of an extension, or of policy:NAME, and reset its failures; the answer comes " +
			"once calls can run again",
		handle: onOne(exthost.Nodes.Restart),
	},
	{
		method:  "POST",
		path:    "/extensions/{id}/disable",
		summary: "Stop an extension until it is enabled; calls in flight may finish first",
		handle:  onOne(exthost.Nodes.Disable),
	},
	{
		method:  "POST",
		path:    "/extensions/{id}/enable",
		summary: "Run a disabled extension again",
		handle:  onOne(exthost.Nodes.Enable),
	},
}

// skillList is the answer of /skills.
type skillList struct {
	Skills []status.Skill `json:"skills"`
	Failed string         `json:"failed,omitempty"` // why servers are missing
}

// declaredSkills lists the skills that MCP servers declare by themselves.
func declaredSkills(h *exthost.Host, r *http.Request) (any, error) {
	list, err := h.Admin().DeclaredSkills(r.Context())
	answer := skillList{Skills: orEmpty(list)}
	if err != nil {
		answer.Failed = err.Error()
	}
	return answer, nil
}

type extensionList struct {
	Extensions []status.Extension `json:"extensions"`
}

func getExtension(h *exthost.Host, r *http.Request) (any, error) {
	for _, x := range h.Admin().Status().Extensions {
		if x.ID == r.PathValue("id") {
			return x, nil
		}
	}
	return nil, protocol.Errorf(protocol.ToolNotFound, "there is no extension %q", r.PathValue("id"))
}

// onOne returns the handler of an action on the item named in the path.
func onOne(act func(n exthost.Nodes, ctx context.Context, id, by string) error) handler {
	return func(h *exthost.Host, r *http.Request) (any, error) {
		return nil, act(h.Nodes(), r.Context(), r.PathValue("id"), operator(r))
	}
}

var toolOperations = []operation{
	{
		method:  "GET",
		path:    "/tools",
		summary: "The tools in the catalog",
		query:   []parameter{{"extension", "only tools of this extension"}, callerParameter, toolsetParameter},
		answer:  ToolList{},
		handle:  getTools,
	},
	{
		method:  "GET",
		path:    "/tools/export",
		summary: "The definitions of tools in the format of a model vendor",
		query: []parameter{
			{"format", "anthropic, openai, openai-chat, gemini or mcp (default)"},
			{"extension", "only tools of this extension"},
			{"defer", "true: mark tools, but favourites, as loaded on demand; anthropic and openai alone"},
			callerParameter,
			toolsetParameter,
		},
		answer: Export{},
		handle: exportTools,
	},
	{
		method:  "GET",
		path:    "/tools/find",
		summary: "The tools that match the words of a user",
		query:   []parameter{{"query", "words, such as close an issue on github"}, callerParameter, toolsetParameter},
		answer:  FoundTools{},
		handle:  findTools,
	},
	{
		method:  "GET",
		path:    "/tools/{name}",
		summary: "One tool, with its descriptor",
		query: []parameter{
			{"toolset", "the tool that clients of this toolset call by the name; absent: the one registered under it"},
		},
		answer: Tool{},
		handle: getTool,
	},
	{
		method:  "POST",
		path:    "/tools/{name}/call",
		summary: "Call a tool; the answer is MCP's CallToolResult as the tool returned it",
		query: []parameter{
			{"node", "the node of the cluster that is to take the call; default any that has the tool"},
			{"progress", "true: the answer is JSON lines, progress while the tool works, and last the result or error"},
		},
		body:   map[string]any{},
		answer: json.RawMessage{},
		lines:  CallLine{},
		write:  callTool,
	},
}

// Tool describes a tool in the catalog to the operator.
type Tool struct {
	Name        string `json:"name"`
	Extension   string `json:"extension"` // "" for a tool of the host itself
	Tool        string `json:"tool"`      // the tool's name within the extension
	Description string `json:"description"`
	// Cluster nodes that have the tool, this one first; empty outside a cluster.
	Nodes      []string        `json:"nodes,omitempty"`
	Tokens     int             `json:"tokens"`               // approximate size in a model's context
	Risk       protocol.Risk   `json:"risk"`                 // read, write or destroy
	Arguments  string          `json:"arguments,omitempty"`  // signature; only with was
	Was        *OriginalTool   `json:"was,omitempty"`        // only if a toolset shows the tool otherwise
	Use        *status.ToolUse `json:"use,omitempty"`        // nil before the first call
	Descriptor json.RawMessage `json:"descriptor,omitempty"` // as MCP clients get it; only from /tools/{name}
}

// OriginalTool is a tool as its extension states it.
type OriginalTool struct {
	Name      string `json:"name"`      // the registered name
	Arguments string `json:"arguments"` // signature: (argument: type, optional?: type)
	Tokens    int    `json:"tokens"`    // approximate size in a model's context
}

// ToolOf returns the Tool for an entry, without its descriptor.
func ToolOf(e *tools.Entry) Tool {
	t := Tool{
		Name:        e.Name,
		Extension:   e.Extension,
		Tool:        e.Tool,
		Description: e.Description,
		Tokens:      e.Tokens(),
		Risk:        e.Risk,
	}
	if was := e.Original(); was != e {
		t.Arguments, t.Was = toolsearch.Arguments(e), &OriginalTool{was.Name, toolsearch.Arguments(was), was.Tokens()}
	}
	return t
}

// callerParameter selects the tools that a caller sees.
var callerParameter = parameter{
	"caller",
	"only tools that policies show to this caller, empty for an anonymous one; absent: all tools",
}

// toolsetParameter selects the tools of a toolset.
var toolsetParameter = parameter{"toolset", "only tools of this toolset, under its names; absent: all tools"}

// ToolList is the answer of /tools.
type ToolList struct {
	Generation uint64   `json:"generation,omitempty"` // of the catalog, as in the status
	Tools      []Tool   `json:"tools"`
	Hidden     []string `json:"hidden,omitempty"` // tools hidden by policies from the requested caller
}

// Export contains the definitions of tools for a model vendor.
type Export struct {
	Format      tools.Format     `json:"format"`
	Definitions json.RawMessage  `json:"definitions"` // in the vendor's format
	Omitted     []tools.Omission `json:"omitted"`     // tools that the format cannot express
	// Names of the tools hidden by policies from the requested caller.
	Hidden []string `json:"hidden,omitempty"`
}

// FoundTools is the answer of /tools/find.
type FoundTools struct {
	Best       []FoundTool    `json:"best"`                 // best match first
	More       []FoundTool    `json:"more"`                 // further tools of the best extensions
	Left       map[string]int `json:"left,omitempty"`       // by extension, how many of its tools are not in the answer
	Extensions []string       `json:"extensions,omitempty"` // if nothing was found, the extensions with tools
	Skills     []FoundSkill   `json:"skills"`               // best match first
}

// FoundSkill is a skill found by a search.
type FoundSkill struct {
	Kind        string `json:"kind"` // skill
	Name        string `json:"name"`
	Extension   string `json:"extension"`
	Description string `json:"description"`
	URI         string `json:"uri"` // of its SKILL.md
}

// FoundTool is a tool found by a search.
type FoundTool struct {
	Name        string          `json:"name"`
	Extension   string          `json:"extension"`
	Arguments   string          `json:"arguments"`              // signature: (argument: type, optional?: type)
	Summary     string          `json:"summary"`                // first sentence of the description
	InputSchema json.RawMessage `json:"input_schema,omitempty"` // only for the best matches
}

// NewFoundTools converts the result of a search.
func NewFoundTools(found tools.Found) FoundTools {
	list := FoundTools{
		Best:       []FoundTool{},
		More:       []FoundTool{},
		Left:       make(map[string]int),
		Extensions: found.Extensions,
		Skills:     []FoundSkill{},
	}
	for _, k := range found.Skills {
		list.Skills = append(list.Skills, FoundSkill{"skill", k.Name, k.Extension, k.Description, k.URI})
	}
	tool := func(e *tools.Entry) FoundTool {
		return FoundTool{
			Name:      e.Name,
			Extension: e.Extension,
			Arguments: toolsearch.Arguments(e),
			Summary:   toolsearch.Summary(e),
		}
	}
	for _, e := range found.Best {
		list.Best = append(list.Best, tool(e))
		list.Best[len(list.Best)-1].InputSchema = e.InputSchema
	}
	for _, g := range found.More {
		for _, e := range g.Tools {
			list.More = append(list.More, tool(e))
		}
		if g.Left > 0 {
			list.Left[g.Extension] = g.Left
		}
	}
	return list
}

func findTools(h *exthost.Host, r *http.Request) (any, error) {
	found, err := h.Toolsets().Find(r.FormValue("toolset"), r.FormValue("caller"), r.FormValue("query"))
	return NewFoundTools(found), err
}

// entries returns the tools selected by the parameters extension, caller and toolset, and the names of the tools that
// policies hide from the caller.
func entries(h *exthost.Host, r *http.Request) (list []*tools.Entry, hidden []string, err error) {
	id, toolset := r.FormValue("extension"), r.FormValue("toolset")
	if !r.Form.Has("caller") {
		catalog, err := h.Toolsets().Tools(toolset)
		switch {
		case err != nil:
			return nil, nil, err
		case id != "":
			return catalog.Extension(id), nil, nil
		}
		return catalog.Entries(), nil, nil
	}
	other := func(e *tools.Entry) bool { return id != "" && e.Extension != id }
	list, unseen, err := h.Toolsets().Offered(toolset, r.FormValue("caller"))
	for _, e := range slices.DeleteFunc(unseen, other) {
		hidden = append(hidden, e.Name)
	}
	return slices.DeleteFunc(list, other), hidden, err
}

func getTools(h *exthost.Host, r *http.Request) (any, error) {
	catalog := h.Tools()
	selected, hidden, err := entries(h, r)
	for now := h.Tools(); now != catalog; now = h.Tools() { // the catalog was replaced meanwhile
		catalog = now
		selected, hidden, err = entries(h, r)
	}
	if err != nil {
		return nil, err
	}
	list := NewToolList(selected, hidden)
	list.Generation = catalog.Generation()
	having := h.Nodes().Having()
	for i, e := range selected {
		list.Tools[i].Use, list.Tools[i].Nodes = h.Admin().ToolUse(e.Extension, e.Registered()), having(e)
	}
	return list, nil
}

// NewToolList returns a list of tools without their descriptors.
func NewToolList(selected []*tools.Entry, hidden []string) ToolList {
	list := ToolList{Tools: []Tool{}, Hidden: hidden}
	for _, e := range selected {
		list.Tools = append(list.Tools, ToolOf(e))
	}
	return list
}

func exportTools(h *exthost.Host, r *http.Request) (any, error) {
	format := cmp.Or(tools.Format(r.FormValue("format")), tools.MCP)
	if !slices.Contains(tools.Formats(), format) {
		return nil, protocol.Errorf(protocol.InvalidArguments, "there is no format %q; the formats are %v", format,
			tools.Formats())
	}
	selected, hidden, err := entries(h, r)
	if err != nil {
		return nil, err
	}
	deferred, err := boolean(r, "defer")
	if err != nil {
		return nil, err
	}
	return NewExport(h, format, selected, hidden, deferred)
}

// NewExport exports tools; if deferred, by [tools.ExportDeferred] with the favourites of h.
func NewExport(h *exthost.Host, f tools.Format, selected []*tools.Entry, hidden []string, deferred bool,
) (out Export, err error) {
	out = Export{Format: f, Hidden: hidden}
	if deferred {
		out.Definitions, out.Omitted, err = tools.ExportDeferred(f, selected, h.Toolsets().IsFavourite)
	} else {
		out.Definitions, out.Omitted = tools.Export(f, selected)
	}
	out.Omitted = orEmpty(out.Omitted)
	return out, err
}

// startWait is how long a request for an unknown tool waits for starting extensions.
const startWait = 5 * time.Second

func getTool(h *exthost.Host, r *http.Request) (any, error) {
	toolset, name := r.FormValue("toolset"), r.PathValue("name")
	e, err := h.Toolsets().Tool(toolset, name)
	if err != nil {
		ctx, cancel := context.WithTimeout(r.Context(), startWait)
		_ = h.Ready(ctx) // after a timeout, the answer follows from the extensions that are ready
		cancel()
		e, err = h.Toolsets().Tool(toolset, name)
	}
	if err != nil {
		return nil, err
	}
	t := ToolOf(e)
	t.Descriptor, t.Use, t.Nodes = e.Descriptor, h.Admin().ToolUse(e.Extension,
		e.Registered()), h.Nodes().Having()(e)
	return t, nil
}

func callTool(h *exthost.Host, w http.ResponseWriter, r *http.Request) error {
	arguments, err := readBody(r, "the arguments")
	if err != nil {
		return err
	}
	o := exthost.CallOptions{Node: r.URL.Query().Get("node")}
	if caller := mcpserver.CallerOf(r.Context()); caller != "" {
		o.Session = &protocol.Session{Caller: caller}
	}
	reports, err := boolean(r, "progress")
	if err != nil {
		return err
	}
	if reports {
		return callWithProgress(h, w, r, arguments, o)
	}
	result, err := h.CallWith(r.Context(), r.PathValue("name"), arguments, o)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, json.RawMessage(result))
}

// CallLine is a line of the answer to a call with progress: one of the members.
type CallLine struct {
	Progress *protocol.Progress `json:"progress,omitempty"`
	Result   json.RawMessage    `json:"result,omitempty"` // the last line
	Error    *Fault             `json:"error,omitempty"`  // the last line
}

// callWithProgress writes the progress of a call and its outcome as [CallLine]. A slow reader gets the latest progress.
// An error before any progress is returned.
func callWithProgress(h *exthost.Host, w http.ResponseWriter, r *http.Request, arguments json.RawMessage,
	o exthost.CallOptions) error {
	lines, latest, begun := newJSONLines(w), make(chan protocol.Progress, 1), false
	o.Progress = func(p protocol.Progress) {
		select {
		case <-latest: // not written yet
		default:
		}
		latest <- p // has room: calls of Progress do not overlap
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range latest {
			begun = true
			_ = lines.write(CallLine{Progress: &p}) // fails when the client has disconnected, as r's context tells
		}
	})
	result, err := h.CallWith(r.Context(), r.PathValue("name"), arguments, o)
	close(latest)
	writing.Wait()
	defer lines.Close()
	if err != nil && !begun {
		return err
	}
	last := CallLine{Result: json.RawMessage(result)}
	if err != nil {
		fault := FaultOf(err)
		last = CallLine{Error: &fault}
	}
	_ = lines.write(last)
	return nil
}

func readBody(r *http.Request, what string) (json.RawMessage, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxArguments))
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidArguments, what+" cannot be read: %w", err)
	}
	return body, nil
}
