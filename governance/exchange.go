package governance

import (
	"context"
	"encoding/json"
	"time"

	"github.com/exthost/exthost/protocol"
)

// Flow is the half of an exchange a policy looks at.
type Flow string

// The flows of an exchange.
const (
	Request  Flow = "request"
	Response Flow = "response"
)

// Exchange is one request, or one notification, and its outcome.
type Exchange struct {
	ID        string // of the decision; "" while nobody looks
	Method    string
	Caller    string          // from the front, never from arguments; "" when anonymous
	Session   string          // "" for stateless callers
	Extension string          // whom it is for; "" for a method of the host
	Tool      string          // the canonical registered name; about a task, that of the tool whose call began it; else ""
	ToChild   bool            // false: an extension asks or tells its caller
	Notify    bool            // a notification: no response flow
	Request   json.RawMessage // the params, as they will be sent
	Response  json.RawMessage // the result; nil until there is one. While content decides about an extension's own error: its {code, message, data}
	Failure   *protocol.Error // why there is no result: a refusal or what went wrong; nil otherwise
	Verdict   Verdict         // what ended it, for those who record
	Began     time.Time       // when the host took it; zero while nobody looks
	Replayed  bool            // it was sent again after the child had died
}

// ReturnsTool reports whether the response is what a tool returns: to its call, or to
// who asks for the result of the task that the call became.
func (x *Exchange) ReturnsTool() bool {
	return x.ToChild && (x.Method == protocol.MethodToolsCall || x.Method == protocol.MethodTasksResult)
}

// Verdict is the decision that counted. The zero value says that every policy
// let the exchange pass, unasked.
type Verdict struct {
	Action Action `json:"action"`         // Deny, Respond, or Ask for a question answered with yes
	Policy string `json:"policy"`         // whose it was
	Code   string `json:"code,omitempty"` // of a denial
	By     string `json:"by,omitempty"`   // who answered the question, if there was one
}

// Action is what a policy wants to happen.
type Action string

// The actions.
const (
	Allow   Action = ""        // let it pass as it is
	Deny    Action = "deny"    // end the exchange with kind rejected
	Modify  Action = "modify"  // go on with Decision.JSON; category content only
	Respond Action = "respond" // answer with Decision.JSON without the extension; content and built-ins, request flow only
	Ask     Action = "ask"     // wait for a person
)

// Decision is a policy's answer. The zero value lets the exchange pass.
type Decision struct {
	Action     Action
	Code       string          // stable, for programs
	Reason     string          // for people and models
	Data       json.RawMessage // more for programs; nil is none
	RetryAfter time.Duration   // when a denied call may be tried again; 0 says nothing
	JSON       json.RawMessage // of Modify and Respond
	Expiry     time.Duration   // of Ask; 0 is DefaultExpiry
}

// DefaultExpiry is how long a question waits for a person.
const DefaultExpiry = 5 * time.Minute

// Policy decides about one flow of an exchange. It is called by many goroutines
// at once, must not keep or change x, and returns soon after ctx ends: nothing
// else interrupts it. An error says that it could not decide; a panic counts as
// one.
type Policy interface {
	Decide(ctx context.Context, flow Flow, x *Exchange) (Decision, error)
}

// Visibler is a policy that also says which tools a caller may see in lists. It
// must be quick: it is asked for each tool of a list.
type Visibler interface {
	Visible(caller, extension, tool string) bool
}

// Placed is a policy with a place of its own within its category: the priority that
// it has where its spec states none.
type Placed interface {
	Priority() int
}

// Question is what a policy wants a person to decide.
type Question struct {
	Policy string
	Flow   Flow
	Code   string          // "" when the policy gave none
	Reason string          // for the person
	Data   json.RawMessage // for programs; nil is none
	Expiry time.Duration   // how long there is for an answer
}

// Approver has people answer questions. Ask waits for the answer and returns soon
// after ctx ends, which it does when the caller gives up or the question expires.
// by names who answered. It must not keep or change x.
type Approver interface {
	Ask(ctx context.Context, x *Exchange, q Question) (approved bool, by string, err error)
}

// Member is a policy with its place in the pipeline. The spec's zero value is not
// required: policies that guard something state Required.
type Member struct {
	Spec   Spec
	Policy Policy
}

// normalize fills in what the spec leaves open.
func (m *Member) normalize() {
	m.Spec.Normalize()
	if p, ok := m.Policy.(Placed); ok && m.Spec.Priority == 0 {
		m.Spec.Priority = p.Priority()
	}
}
