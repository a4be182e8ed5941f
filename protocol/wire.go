package protocol

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Methods of the native protocol; the rest are MCP's.
const (
	MethodShutdown   = "shutdown"
	MethodHookPrefix = "hooks/" // followed by the hook's snake_case name
	MethodDecide     = "governance/decide"
)

// InitializeParams are the params of initialize (request id 0) to a native extension.
type InitializeParams struct {
	AgentVersion    string          `json:"agent_version"` // the host's version
	ExtensionID     string          `json:"extension_id"`
	ProtocolVersion int             `json:"protocol_version"`
	Capabilities    json.RawMessage `json:"capabilities"` // features that the host relays, e.g. {"progress":{}}
	Config          json.RawMessage `json:"config"`       // the extension's merged [config]
	StateDir        string          `json:"state_dir"`    // private to the extension, survives restarts
}

// InitializeResult is a native extension's result of initialize.
type InitializeResult struct {
	ServerVersion   string            `json:"server_version,omitempty"`
	ProtocolVersion int               `json:"protocol_version,omitempty"` // 0 means 1
	Tools           []json.RawMessage `json:"tools,omitempty"`            // descriptors, see [Tool]
	Hooks           []string          `json:"hooks,omitempty"`
}

// DecideParams are the params of governance/decide: one flow of an exchange for a native policy.
type DecideParams struct {
	ID   string `json:"id,omitempty"` // id of the exchange, the same in both flows
	Flow string `json:"flow"`         // request or response
	// to_extension, or to_caller for requests and notifications of an extension
	Direction string `json:"direction"`
	Method    string `json:"method"`            // an MCP method name
	Caller    string `json:"caller,omitempty"`  // authenticated; "" when anonymous
	Session   string `json:"session,omitempty"` // "" for stateless callers
	// the cluster node of the caller; "" for this host
	Node      string `json:"node,omitempty"`
	Extension string `json:"extension,omitempty"` // the target; "" for a method of the host
	Tool      string `json:"tool,omitempty"`      // the registered name; "" outside tools/call
	// headers of the HTTP request, by lower-case name; only for category authentication, nil if the call did not arrive
	// over HTTP
	Headers map[string]string `json:"headers,omitempty"`
	Request json.RawMessage   `json:"request,omitempty"` // the params
	// the result; if Error is set, the part of the error that may be changed
	Response json.RawMessage `json:"response,omitempty"`
	Error    *WireError      `json:"error,omitempty"` // instead of a result
	// the final decision of the exchange; category audit only
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Verdict is the decision that took effect.
type Verdict struct {
	Decision string `json:"decision"`         // a value of [DecideResult].Decision
	Policy   string `json:"policy,omitempty"` // the deciding policy; "" if all allowed
	Code     string `json:"code,omitempty"`
}

// The values of [DecideResult].Decision.
const (
	DecisionAllow  = "allow"  // unchanged
	DecisionDeny   = "deny"   // with code and reason
	DecisionModify = "modify" // replaces the request or, in flow response, the response; category content only
	// answers the request in place of the extension; category content only
	DecisionRespond = "respond"
	DecisionAsk     = "ask" // wait for a person's approval
)

// DecideResult is the result of governance/decide. Decision is required.
type DecideResult struct {
	Decision   string          `json:"decision"`
	Code       string          `json:"code,omitempty"`        // stable, for programs
	Reason     string          `json:"reason,omitempty"`      // for people and models
	Data       json.RawMessage `json:"data,omitempty"`        // details for programs
	RetryAfter float64         `json:"retry_after,omitempty"` // seconds until a denied call may be tried again
	// seconds to wait for a person's approval; 0: the host's default
	Expiry   float64         `json:"expiry,omitempty"`
	Asking                   // of ask
	Request  json.RawMessage `json:"request,omitempty"`  // replaces the params
	Response json.RawMessage `json:"response,omitempty"` // replaces the result
}

// Tool is the descriptor of an extension's tool. On the wire InputSchema is input_schema or inputSchema. Raw holds
// the bytes as sent.
type Tool struct {
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  json.RawMessage
	Raw          json.RawMessage
}

// ToolsCallParams are the params of tools/call.
type ToolsCallParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// Progress is how far a call has come, as notifications/progress states it.
type Progress struct {
	Done    float64 `json:"progress"` // in any unit; grows from report to report
	Total   float64 `json:"total"`    // in the same unit; 0 is unknown
	Message string  `json:"message"`  // for people; may be ""
}

// ToolResult is MCP's CallToolResult, the result of tools/call, as the bytes that the extension sent.
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
	_ = json.Unmarshal(r, &p) // anything but an object is read as {}
	return p
}

// Text joins the text blocks with newlines.
func (r ToolResult) Text() string {
	var texts []string
	for _, c := range r.parse().Content {
		if c.Type == "text" {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Structured returns structuredContent, or nil.
func (r ToolResult) Structured() json.RawMessage { return r.parse().StructuredContent }

// IsError reports whether the tool failed.
func (r ToolResult) IsError() bool {
	return bytes.Contains(r, []byte(`"isError"`)) && r.parse().IsError
}

// MarshalJSON returns the bytes as sent.
func (r ToolResult) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }
