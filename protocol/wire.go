package protocol

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Method names. The native protocol uses MCP's wherever one exists.
const (
	MethodInitialize = "initialize"
	MethodDiscover   = "server/discover"
	MethodPing       = "ping"
	MethodShutdown   = "shutdown"          // native only
	MethodHookPrefix = "hooks/"            // native only; followed by the hook's snake_case name
	MethodDecide     = "governance/decide" // native only

	MethodToolsList            = "tools/list"
	MethodToolsCall            = "tools/call"
	MethodPromptsList          = "prompts/list"
	MethodPromptsGet           = "prompts/get"
	MethodResourcesList        = "resources/list"
	MethodResourceTemplates    = "resources/templates/list"
	MethodResourcesRead        = "resources/read"
	MethodResourcesSubscribe   = "resources/subscribe"   // legacy
	MethodResourcesUnsubscribe = "resources/unsubscribe" // legacy
	MethodListen               = "subscriptions/listen"  // modern
	MethodComplete             = "completion/complete"
	MethodSetLevel             = "logging/setLevel" // legacy
	MethodTasksList            = "tasks/list"       // legacy
	MethodTasksGet             = "tasks/get"
	MethodTasksResult          = "tasks/result" // legacy; waits for the result of the call that became a task
	MethodTasksUpdate          = "tasks/update" // modern
	MethodTasksCancel          = "tasks/cancel"

	// Requests of a server to its client. A modern server sends none: it answers
	// with the questions instead.
	MethodSample    = "sampling/createMessage"
	MethodElicit    = "elicitation/create"
	MethodRootsList = "roots/list"

	MethodInitialized              = "notifications/initialized" // legacy
	MethodProgress                 = "notifications/progress"
	MethodMessage                  = "notifications/message"
	MethodCancelled                = "notifications/cancelled"
	MethodToolsListChanged         = "notifications/tools/list_changed"
	MethodPromptsListChanged       = "notifications/prompts/list_changed"
	MethodResourcesListChanged     = "notifications/resources/list_changed"
	MethodResourceUpdated          = "notifications/resources/updated"
	MethodSubscriptionAcknowledged = "notifications/subscriptions/acknowledged" // modern
	MethodTaskStatus               = "notifications/tasks/status"               // legacy
)

// InitializeParams opens a native conversation (request id 0).
type InitializeParams struct {
	AgentVersion    string          `json:"agent_version"` // the host's version
	ExtensionID     string          `json:"extension_id"`
	ProtocolVersion int             `json:"protocol_version"`
	Capabilities    json.RawMessage `json:"capabilities"` // what the host can relay, e.g. {"progress":{}}
	Config          json.RawMessage `json:"config"`       // the extension's merged [config]
	StateDir        string          `json:"state_dir"`    // private to the extension, survives restarts
}

// InitializeResult is a native extension's answer.
type InitializeResult struct {
	ServerVersion   string            `json:"server_version,omitempty"`
	ProtocolVersion int               `json:"protocol_version,omitempty"` // 0 means 1
	Tools           []json.RawMessage `json:"tools,omitempty"`            // descriptors, see [Tool]
	Hooks           []string          `json:"hooks,omitempty"`
}

// DecideParams asks a native policy about one flow of an exchange.
type DecideParams struct {
	ID        string          `json:"id,omitempty"`        // of the decision; the same in both flows
	Flow      string          `json:"flow"`                // request or response
	Direction string          `json:"direction"`           // to_extension, or to_caller: what an extension asks or tells
	Method    string          `json:"method"`              // of MCP
	Caller    string          `json:"caller,omitempty"`    // authenticated; "" when anonymous
	Session   string          `json:"session,omitempty"`   // "" for stateless callers
	Extension string          `json:"extension,omitempty"` // whom it is for; "" for a method of the host
	Tool      string          `json:"tool,omitempty"`      // the registered name; "" outside tools/call
	Request   json.RawMessage `json:"request,omitempty"`   // the params
	Response  json.RawMessage `json:"response,omitempty"`  // the result; beside Error, what of that may be changed
	Error     *WireError      `json:"error,omitempty"`     // why there is no result; only content and audit see one
	Verdict   *Verdict        `json:"verdict,omitempty"`   // what ended the exchange; only audit sees it
}

// Verdict is the decision that counted.
type Verdict struct {
	Decision string `json:"decision"`         // a decision's word, see [DecideResult]
	Policy   string `json:"policy,omitempty"` // whose it was; "" when all let it pass
	Code     string `json:"code,omitempty"`
}

// The words of a decision.
const (
	DecisionAllow   = "allow"   // as it is
	DecisionDeny    = "deny"    // with code and reason
	DecisionModify  = "modify"  // with request or response, by the flow; category content only
	DecisionRespond = "respond" // with response, in the request flow: the extension is not asked; category content only
	DecisionAsk     = "ask"     // a person
)

// DecideResult is a native policy's answer. Nothing is implied: without a decision
// it is not one.
type DecideResult struct {
	Decision   string          `json:"decision"`
	Code       string          `json:"code,omitempty"`        // stable, for programs
	Reason     string          `json:"reason,omitempty"`      // for people and models
	Data       json.RawMessage `json:"data,omitempty"`        // more for programs
	RetryAfter float64         `json:"retry_after,omitempty"` // seconds until a denied call may be tried again
	Expiry     float64         `json:"expiry,omitempty"`      // seconds that a question waits for a person; 0 is the host's default
	Request    json.RawMessage `json:"request,omitempty"`     // instead of the params
	Response   json.RawMessage `json:"response,omitempty"`    // instead of the result
}

// Tool is a descriptor as an extension offers it. InputSchema may be spelled
// input_schema or inputSchema; Raw keeps every field as it was sent.
type Tool struct {
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  json.RawMessage
	Raw          json.RawMessage
}

// ToolsCallParams is the payload of tools/call.
type ToolsCallParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// ToolResult is the answer to tools/call, kept as the bytes the extension sent.
// Its shape is MCP's CallToolResult.
type ToolResult json.RawMessage

// toolResult is the part of a CallToolResult that ToolResult's methods read.
type toolResult struct {
	Content []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
}

func (r ToolResult) parse() (p toolResult) {
	_ = json.Unmarshal(r, &p) // a result that is not an object reads as an empty one
	return p
}

// Text joins the text blocks of the result with newlines.
func (r ToolResult) Text() string {
	var texts []string
	for _, c := range r.parse().Content {
		if c.Type == "text" {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Structured returns structuredContent as it was sent, nil when there is none.
func (r ToolResult) Structured() json.RawMessage { return r.parse().StructuredContent }

// IsError reports whether the tool itself says that it failed.
func (r ToolResult) IsError() bool {
	return bytes.Contains(r, []byte(`"isError"`)) && r.parse().IsError
}

// MarshalJSON returns the result as it was sent.
func (r ToolResult) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }
