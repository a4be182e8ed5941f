package governance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/exthost/exthost/internal/text/glob"
	"github.com/exthost/exthost/protocol"
)

// Flow is the half of an exchange that a policy decides about.
type Flow string

// The flows of an exchange.
const (
	Request  Flow = "request"
	Response Flow = "response"
)

// Exchange is one request or notification and its outcome.
type Exchange struct {
	ID        string // of the decision; "" in a pipeline without policies
	Method    string
	Caller    string // as the server authenticated it, never from arguments; "" when anonymous
	Session   string // "" for stateless callers
	Instance  string // distinguishes stateless callers of one name; "" when unknown
	Node      string // the cluster node that the caller is connected to; "" for this host
	Origin    string // the id of the decision at Node about the same call; "" for none
	Extension string // the receiver or the sender; "" for a method of the host
	// the registered name; for a task's methods, the tool whose call created the task; else ""
	Tool string
	Risk protocol.Risk // of Tool; see [Exchange.ToolRisk]
	// how a result does not match what the tool states about its results, "" if it does; promised is false for a result
	// about which the tool states nothing. nil: it states nothing about any
	Mismatch func(result json.RawMessage) (fault string, promised bool)
	ToChild  bool            // false: the extension sends to its caller
	Notify   bool            // a notification, which has no response flow
	Request  json.RawMessage // the params as they will be sent
	// the result, nil until there is one. For a Failure that may quote the extension, policies of
	// the response flow see {code, message, data} of the Failure here
	Response json.RawMessage
	Failure  *protocol.Error // the denial or error that ended the exchange; nil otherwise
	Verdict  Verdict         // the decision that ended the exchange, for audit
	Began    time.Time       // when the exchange entered the pipeline; zero in a pipeline without policies
	Replayed bool            // sent again after the child died
	At       time.Time       // the time by which policies that count decide; zero: the present
	// the client that made the call, as approvers reach it; nil: only operators can be asked
	Client Client
}

// Client is the client that made a call, as an [Approver] reaches it while the call waits.
type Client interface {
	// MayApprove reports whether the operator lets the person in front of the client approve calls of this risk.
	MayApprove(risk protocol.Risk) bool
	// Confirm asks that person to accept or decline, and returns the client's answer as it came. It
	// returns soon after ctx ends. An error means that nobody was asked.
	Confirm(ctx context.Context, message string) (answer json.RawMessage, err error)
	// Program is what the client calls itself; "" if it does not.
	Program() string
	// Waits tells the client what its call waits for, if the client wants to know, until stop is called.
	Waits(ctx context.Context, what string) (stop func())
}

// Now returns the time by which policies that count decide about x.
func (x *Exchange) Now() time.Time {
	if x.At.IsZero() {
		return time.Now()
	}
	return x.At
}

// ReturnsTool reports whether the response is a tool's result: the response to tools/call, or to
// tasks/result for a call that became a task.
func (x *Exchange) ReturnsTool() bool {
	return x.ToChild && (x.Method == protocol.MethodToolsCall || x.Method == protocol.MethodTasksResult)
}

// ToolRisk returns the risk of x.Tool: "" without a tool, [protocol.RiskDestroy] for a tool whose risk is not known.
func (x *Exchange) ToolRisk() protocol.Risk {
	if x.Tool == "" {
		return ""
	}
	return x.Risk.Known()
}

// ThisHost matches callers of this host in a list of node globs. It is not a valid node name.
const ThisHost = "."

// IsFrom reports whether the caller's node matches one of the globs. A caller of this host
// matches [ThisHost], and globs that match the empty string, such as *.
func (x *Exchange) IsFrom(nodes []string) bool {
	return glob.List(nodes).Match(x.Node) || x.Node == "" && slices.Contains(nodes, ThisHost)
}

// Verdict is the decision that determined the outcome. The zero value means that every
// policy allowed the exchange without asking a person.
type Verdict struct {
	Action Action `json:"action"`         // Deny, Respond, or Ask for an approval request that was approved
	Policy string `json:"policy"`         // the policy that decided
	Code   string `json:"code,omitempty"` // the decision's code; "" for none
	By     string `json:"by,omitempty"`   // the person who answered an approval request
	// where that person was asked, client or operator, and how long the answer took
	Where protocol.Where    `json:"where,omitempty"`
	After protocol.Duration `json:"answered_after_ms,omitempty"`
}

// Answered returns v with who answered, where and when.
func (v Verdict) Answered(a Answer) Verdict {
	v.By, v.Where, v.After = a.By, a.Where, protocol.Duration(a.After)
	return v
}

// Action is the kind of a policy's decision.
type Action string

// The actions.
const (
	Allow  Action = ""       // continue unchanged
	Deny   Action = "deny"   // end the exchange with an error of kind rejected
	Modify Action = "modify" // continue with Decision.JSON; category content only
	// answer with Decision.JSON instead of the extension; request flow, category content or kind builtin only
	Respond Action = "respond"
	Ask     Action = "ask" // wait for a person's approval
)

// Decision is a policy's answer. The zero value allows the exchange.
type Decision struct {
	Action     Action
	Code       string          // stable, for programs; at most 256 bytes, what is longer is cut
	Reason     string          // for people and models
	Data       json.RawMessage // details for programs; nil is none
	RetryAfter time.Duration   // when a denied call may be retried; 0 is unstated
	JSON       json.RawMessage // for Modify and Respond
	Expiry     time.Duration   // for Ask; 0 is DefaultExpiry
	// for Ask: where a person is asked, and how long a yes holds
	protocol.Asking
}

// DefaultExpiry is how long an approval request waits for an answer.
const DefaultExpiry = 5 * time.Minute

// Policy decides about one flow of an exchange. Decide must be safe for concurrent use, must not
// keep or change x, and must return soon after ctx ends, because nothing else interrupts it. An
// error or a panic means that the policy could not decide. For a policy of category authentication,
// [protocol.HeadersOf] returns the headers of the HTTP request from ctx.
type Policy interface {
	Decide(ctx context.Context, flow Flow, x *Exchange) (Decision, error)
}

// ErrDecided is wrapped by an error of a policy that has decided other than [Allow], but whose
// decision cannot be read or carried out. The exchange then ends even if the policy is not
// required.
var ErrDecided = errors.New("it has decided, and the decision cannot be carried out")

// Tool is a tool in a list.
type Tool struct {
	Extension string // "" for a tool of the host
	Name      string // the registered name
	Risk      protocol.Risk
}

// Called returns the exchange of a call of t.
func (t Tool) Called(caller string) *Exchange {
	return &Exchange{
		Method:    protocol.MethodToolsCall,
		Caller:    caller,
		Extension: t.Extension,
		Tool:      t.Name,
		Risk:      t.Risk,
		ToChild:   true,
	}
}

// Visibler is a policy that also decides which tools a caller sees in lists. Visible is
// called for each tool of a list, so it must be quick.
type Visibler interface {
	Visible(caller string, t Tool) bool
}

// Placed is a policy with a default priority. If its spec states no priority, the policy has that
// priority and runs after the policies of all layers.
type Placed interface {
	Priority() int
}

// ApprovalRequest is a decision that a policy leaves to a person.
type ApprovalRequest struct {
	Policy string
	Flow   Flow
	Code   string          // "" when the policy gave none
	Reason string          // for the person
	Data   json.RawMessage // for programs; nil is none
	Expiry time.Duration   // how long to wait for an answer
	protocol.Asking
}

// Answer is a person's answer to an approval request.
type Answer struct {
	Approved bool
	By       string         // the person
	Where    protocol.Where // AtOperator or InClient; "" if nobody answered
	After    time.Duration  // from the question to the answer
	Next     string         // how to answer a request that nobody has answered; "" if nobody can
}

// String says who answered: "ann", or "laptop in the client, after 2.1s".
func (a Answer) String() string {
	if a.Where != protocol.InClient {
		return a.By
	}
	return fmt.Sprintf("%s in the client, after %s", a.By, a.After.Round(100*time.Millisecond))
}

// Approver asks people. Ask waits for the answer and returns soon after ctx ends, which
// happens when the caller cancels or the request expires. Ask must not keep or change x.
type Approver interface {
	Ask(ctx context.Context, x *Exchange, q ApprovalRequest) (Answer, error)
}

// Member is a policy and its spec, which needs a name and a category. Calls that the policy cannot decide about fail,
// unless the spec's Required is new(false).
type Member struct {
	Spec   Spec
	Policy Policy
}

// normalize fills in the defaults of the spec.
func (m *Member) normalize() {
	m.Spec.Normalize()
	if p, ok := m.Policy.(Placed); ok && m.Spec.Priority == 0 {
		m.Spec.Priority, m.Spec.Layer = p.Priority(), layerLast
	}
}
