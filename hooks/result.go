package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/text/rawjson"
)

// commandResult is the exit status and the output of a command.
type commandResult struct {
	exit   process.Exit
	stderr string // the last lines
	text   string // stdout, when it is not JSON
	isJSON bool
	out    output
	base   *Reply // the members that replies of extensions have as well
}

// output holds the members of the JSON output in Claude Code, in Gemini CLI and in Cursor.
type output struct {
	Continue      *bool  `json:"continue"`
	StopReason    string `json:"stopReason"`
	SystemMessage string `json:"systemMessage"`
	Decision      string `json:"decision"`
	Reason        string `json:"reason"`
	Specific      struct {
		PermissionDecision       string          `json:"permissionDecision"`
		PermissionDecisionReason string          `json:"permissionDecisionReason"`
		UpdatedInput             json.RawMessage `json:"updatedInput"`
		UpdatedToolOutput        json.RawMessage `json:"updatedToolOutput"`
		UpdatedMCPToolOutput     json.RawMessage `json:"updatedMCPToolOutput"`
		AdditionalContext        string          `json:"additionalContext"`
		ToolInput                json.RawMessage `json:"tool_input"` // Gemini CLI's, of members that change
	} `json:"hookSpecificOutput"`

	// Cursor's.
	Permission        string          `json:"permission"`
	AgentMessage      string          `json:"agent_message"`
	UserMessage       string          `json:"user_message"`
	UpdatedInput      json.RawMessage `json:"updated_input"`
	UpdatedOutput     json.RawMessage `json:"updated_mcp_tool_output"`
	AdditionalContext string          `json:"additional_context"`
}

// readResult parses the output of a command. Invalid JSON is an error, unless the exit code
// determines the reply.
func readResult(exit process.Exit, stdout []byte, stderr []string) (*commandResult, error) {
	c := &commandResult{exit: exit, stderr: strings.Join(stderr, "\n")}
	value := extractJSON(bytes.TrimSpace(stdout))
	if value == nil {
		c.text = strings.ToValidUTF8(strings.TrimSpace(string(stdout)), "\uFFFD")
		return c, nil
	}
	err := rawjson.Check(value)
	if err == nil {
		err = json.Unmarshal(value, &c.out)
	}
	if err == nil {
		// decision has other words in Claude Code, see decide
		c.base, err = DecodeReply(rawjson.Edit(value, map[string]json.RawMessage{"decision": nil}))
	}
	if err != nil && exit.Code == 2 {
		c.out, c.base = output{}, nil
		return c, nil
	}
	if err != nil && exit.Success() {
		return nil, fmt.Errorf("its output begins as JSON, and cannot be used: %w", err)
	}
	c.isJSON = err == nil
	return c, nil
}

// extractJSON returns the object in stdout, which may follow lines of other text: start-up files of shells may print
// some. It returns nil when there is none.
func extractJSON(stdout []byte) json.RawMessage {
	if bytes.HasPrefix(stdout, []byte("{")) {
		return stdout
	}
	if i := bytes.LastIndex(stdout, []byte("\n{")); i >= 0 && json.Valid(stdout[i+1:]) {
		return stdout[i+1:]
	}
	return nil
}

func (c *commandResult) reply(p Point) (*Reply, error) {
	switch {
	case c.exit.Code == 2:
		r, err := c.json(p)
		if err != nil {
			r = &Reply{}
		}
		r.block(p, cmp.Or(c.reason(), c.stderr, "exit status 2"))
		return r, nil
	case !c.exit.Success():
		if r, err := c.json(p); c.isJSON && err == nil && (r.Abort || r.Decision.strength() > Allow.strength()) {
			return r, nil
		}
		return nil, c.failure()
	case c.isJSON:
		return c.json(p)
	case c.text != "" && (p == SessionStart || p == BeforeMessage):
		return &Reply{Context: cutContext(c.text)}, nil
	}
	return nil, nil
}

func (c *commandResult) reason() string {
	return cmp.Or(c.out.Specific.PermissionDecisionReason, c.out.Reason, c.out.StopReason, c.out.AgentMessage,
		c.out.UserMessage)
}

// failure returns the error for an exit code other than 0 and 2.
func (c *commandResult) failure() error {
	line, _, _ := strings.Cut(c.stderr, "\n")
	if line == "" {
		return errors.New(c.exit.String())
	}
	return fmt.Errorf("%v: %s", c.exit, line)
}

func (c *commandResult) json(p Point) (*Reply, error) {
	r := c.base
	if r == nil {
		r = &Reply{}
	}
	r.Reason = c.reason()
	r.Context = cutContext(strings.TrimSpace(cmp.Or(c.out.Specific.AdditionalContext, c.out.AdditionalContext) + "\n" +
		r.Context))
	if err := c.decide(p, r); err != nil {
		return nil, err
	}
	if c.out.Continue != nil && !*c.out.Continue {
		r.Abort, r.Reason = true, cmp.Or(c.out.StopReason, r.Reason)
	}
	c.change(p, r)
	return r, nil
}

// change sets what the output changes of a call or its result.
func (c *commandResult) change(p Point, r *Reply) {
	s := &c.out.Specific
	switch p {
	case BeforeToolCall:
		if input := firstValue(s.UpdatedInput, c.out.UpdatedInput); input != nil {
			r.Replace = input
		}
		if input := firstValue(s.ToolInput); input != nil {
			r.Override = input
		}
	case AfterToolCall:
		if output := firstValue(s.UpdatedToolOutput, s.UpdatedMCPToolOutput, c.out.UpdatedOutput); output != nil {
			r.Replace = toolResult(output)
		}
	}
}

// decide sets the decision, which older and newer hooks state in different members and
// words.
func (c *commandResult) decide(p Point, r *Reply) error {
	switch word := cmp.Or(c.out.Specific.PermissionDecision, c.out.Decision, c.out.Permission); word {
	case "", "none":
	case "allow", "approve":
		r.Decision = Allow
	case "ask", "defer":
		r.Decision = Ask
	case "deny":
		r.Decision = Deny
	case "block":
		r.block(p, r.Reason)
	default:
		return fmt.Errorf("its decision %q is none of allow, deny, ask, approve and block", word)
	}
	return nil
}

// block sets the effect of a blocking result at the point.
func (r *Reply) block(p Point, reason string) {
	switch {
	case p.Gate() || p == AfterMessage:
		r.Decision, r.Reason = Deny, reason
	case p == AfterToolCall || p == ToolCallFailed:
		r.Context = cutContext(strings.TrimSpace(reason + "\n" + r.Context))
	}
}

// firstValue returns the first value that is neither absent nor null.
func firstValue(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 && string(v) != "null" {
			return v
		}
	}
	return nil
}

func toolResult(value json.RawMessage) json.RawMessage {
	if c := rawjson.Get(value, "content"); len(c) > 0 && c[0] == '[' {
		return value
	}
	shown, isText := rawjson.Text(value)
	if !isText {
		shown = string(value)
	}
	result := append(rawjson.AppendText([]byte(`{"content":[{"type":"text","text":`), shown), `}]`...)
	if rawjson.IsObject(value) {
		result = append(append(result, `,"structuredContent":`...), value...)
	}
	return append(result, '}')
}

// maxContext bounds the context of one hook, in bytes.
const maxContext = 10_000

func cutContext(s string) string {
	if len(s) <= maxContext {
		return s
	}
	cut := maxContext
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "… (cut)"
}
