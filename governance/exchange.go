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
	Tool      string          // the canonical registered name; "" outside tools/call
	ToChild   bool            // false: an extension asks or tells its caller
	Notify    bool            // a notification: no response flow
	Request   json.RawMessage // the params, as they will be sent
	Response  json.RawMessage // the result; nil until there is one
	Failure   *protocol.Error // why there is no result: a refusal or what went wrong; nil otherwise
	Verdict   Verdict         // what ended it, for those who record
}

// Verdict is the decision that counted.
type Verdict struct {
	Action Action
	Policy string // whose it was; "" when every policy let it pass
	Code   string
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
// at once and must not keep or change x.
type Policy interface {
	Decide(ctx context.Context, flow Flow, x *Exchange) (Decision, error)
}

// Visibler is a policy that also says which tools a caller may see in lists. It
// must be quick: it is asked for each tool of a list.
type Visibler interface {
	Visible(caller, tool string) bool
}

// Member is a policy with its place in the pipeline.
type Member struct {
	Spec   Spec
	Policy Policy
}
