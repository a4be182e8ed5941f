package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/exthost/exthost/internal/process"
	"github.com/exthost/exthost/internal/rawjson"
)

// answer is how a command ended and what it said.
type answer struct {
	exit   process.Exit
	stderr string // its last lines
	plain  string // stdout, when it is no JSON
	isJSON bool
	said   output
	own    *Reply // the members that the replies of extensions have as well
}

// output is what is Claude Code's own in the JSON on stdout.
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
	} `json:"hookSpecificOutput"`
}

// readAnswer reads what a command left. Broken JSON is an error unless the exit
// code says enough.
func readAnswer(exit process.Exit, stdout []byte, stderr []string) (*answer, error) {
	a := &answer{exit: exit, stderr: strings.Join(stderr, "\n")}
	value := jsonIn(bytes.TrimSpace(stdout))
	if value == nil {
		a.plain = strings.ToValidUTF8(strings.TrimSpace(string(stdout)), "\uFFFD")
		return a, nil
	}
	err := rawjson.Check(value)
	if err == nil {
		err = json.Unmarshal(value, &a.said)
	}
	if err == nil {
		a.own, err = DecodeReply(rawjson.Edit(value, map[string]json.RawMessage{"decision": nil})) // has words of its own
	}
	if err != nil && exit.Code == 2 {
		a.said, a.own = output{}, nil
		return a, nil
	}
	if err != nil && exit.Success() {
		return nil, fmt.Errorf("its output begins as JSON, and cannot be used: %w", err)
	}
	a.isJSON = err == nil
	return a, nil
}

// jsonIn is the object that stdout is, or ends with behind lines of other text,
// which shells' start-up files like to write; nil when there is none.
func jsonIn(stdout []byte) json.RawMessage {
	if bytes.HasPrefix(stdout, []byte("{")) {
		return stdout
	}
	if i := bytes.LastIndex(stdout, []byte("\n{")); i >= 0 && json.Valid(stdout[i+1:]) {
		return stdout[i+1:]
	}
	return nil
}

// reply is what the answer means at a point.
func (a *answer) reply(p Point) (*Reply, error) {
	switch {
	case a.exit.Code == 2:
		r, err := a.json(p)
		if err != nil {
			r = &Reply{}
		}
		return blocked(p, r, cmp.Or(a.reason(), a.stderr, "exit status 2")), nil
	case !a.exit.Success():
		if r, err := a.json(p); a.isJSON && err == nil && (r.Abort || r.Decision.strength() > Allow.strength()) {
			return r, nil
		}
		return nil, a.failure()
	case a.isJSON:
		return a.json(p)
	case a.plain != "" && (p == SessionStart || p == BeforeMessage):
		return &Reply{Context: bounded(a.plain)}, nil
	}
	return nil, nil
}

func (a *answer) reason() string {
	return cmp.Or(a.said.Specific.PermissionDecisionReason, a.said.Reason, a.said.StopReason)
}

// failure is an exit that is neither 0 nor 2.
func (a *answer) failure() error {
	line, _, _ := strings.Cut(a.stderr, "\n")
	if line == "" {
		return errors.New(a.exit.String())
	}
	return fmt.Errorf("%v: %s", a.exit, line)
}

// json is the reply that the JSON asks for.
func (a *answer) json(p Point) (*Reply, error) {
	r := a.own
	if r == nil {
		r = &Reply{}
	}
	r.Reason = a.reason()
	r.Context = bounded(strings.TrimSpace(a.said.Specific.AdditionalContext + "\n" + r.Context))
	if err := a.decide(p, r); err != nil {
		return nil, err
	}
	if a.said.Continue != nil && !*a.said.Continue {
		r.Abort, r.Reason = true, cmp.Or(a.said.StopReason, r.Reason)
	}
	s := &a.said.Specific
	switch output := firstValue(s.UpdatedToolOutput, s.UpdatedMCPToolOutput); {
	case p == BeforeToolCall && firstValue(s.UpdatedInput) != nil:
		r.Replace = s.UpdatedInput
	case p == AfterToolCall && output != nil:
		r.Replace = toolResult(output)
	}
	return r, nil
}

// decide reads the decision, which has an older and a newer place and words.
func (a *answer) decide(p Point, r *Reply) error {
	switch word := cmp.Or(a.said.Specific.PermissionDecision, a.said.Decision); word {
	case "", "none":
	case "allow", "approve":
		r.Decision = Allow
	case "ask", "defer":
		r.Decision = Ask
	case "deny":
		r.Decision = Deny
	case "block":
		blocked(p, r, r.Reason)
	default:
		return fmt.Errorf("its decision %q is none of allow, deny, ask, approve and block", word)
	}
	return nil
}

// blocked is r with what blocking means at the point.
func blocked(p Point, r *Reply, reason string) *Reply {
	switch {
	case p.Gate() || p == AfterMessage:
		r.Decision, r.Reason = Deny, reason
	case p == AfterToolCall || p == ToolCallFailed:
		r.Context = bounded(strings.TrimSpace(reason + "\n" + r.Context))
	}
	return r
}

// firstValue is the first of values that is there and not null.
func firstValue(values ...json.RawMessage) json.RawMessage {
	for _, v := range values {
		if len(v) > 0 && string(v) != "null" {
			return v
		}
	}
	return nil
}

// toolResult makes an MCP result of a value that is to be one.
func toolResult(value json.RawMessage) json.RawMessage {
	if c := rawjson.Get(value, "content"); len(c) > 0 && c[0] == '[' {
		return value
	}
	shown, isText := rawjson.Text(value)
	if !isText {
		shown = string(value)
	}
	result := append(rawjson.AppendText([]byte(`{"content":[{"type":"text","text":`), shown), `}]`...)
	if isObject(value) {
		result = append(append(result, `,"structuredContent":`...), value...)
	}
	return append(result, '}')
}

// maxContext bounds what one hook may tell the model, in bytes.
const maxContext = 10_000

// bounded cuts a context that is too long.
func bounded(s string) string {
	if len(s) <= maxContext {
		return s
	}
	cut := maxContext
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "… (cut)"
}
