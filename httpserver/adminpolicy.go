package httpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// policyOperations are the operator's side of governance.
var policyOperations = []operation{
	{method: "GET", path: "/policies", summary: "The policies, in the order in which they are asked, and the audit log",
		answer: policyList{}, handle: (*admin).policies},
	{method: "POST", path: "/policies/test", summary: "Hold a call against the policies, without making it",
		body: TestCall{}, answer: TestResult{}, handle: (*admin).testCall},
	{method: "GET", path: "/decisions", summary: "How the latest exchanges fared, the newest first",
		query:  []parameter{{"last", "how many; default 100"}},
		answer: decisionList{}, handle: (*admin).decisions},
	{method: "GET", path: "/decisions/{id}", summary: "One decision",
		answer: exthost.Trace{}, handle: (*admin).decision},
	{method: "GET", path: "/approvals", summary: "The questions that wait for a person, the oldest first",
		answer: approvalList{}, handle: (*admin).approvals},
	{method: "POST", path: "/approvals/{id}/approve", summary: "Let the call be made, once",
		handle: (*admin).approve},
	{method: "POST", path: "/approvals/{id}/deny", summary: "End the call; the body may be empty",
		body: Denial{}, handle: (*admin).deny},
	{method: "GET", path: "/pins", summary: "The descriptors of tools that policies have pinned",
		answer: pinList{}, handle: (*admin).pins},
	{method: "POST", path: "/pins/{extension}/approve", summary: "Pin what the tools of an extension say now, those that are held back",
		handle: (*admin).approvePin},
	{method: "POST", path: "/pins/{extension}/{tool}/approve", summary: "Pin what one tool says now",
		handle: (*admin).approvePin},
}

// What lists are answered as.
type (
	policyList struct {
		Policies []status.Policy `json:"policies"`
		Audit    *status.Audit   `json:"audit,omitempty"` // nil: none is kept
	}
	decisionList struct {
		Decisions []exthost.Trace `json:"decisions"`
	}
	approvalList struct {
		Approvals []exthost.Question `json:"approvals"`
	}
	pinList struct {
		Pins []status.Pin `json:"pins"`
	}
)

// Denial is why a call is not to be made.
type Denial struct {
	Reason string `json:"reason,omitempty"`
}

type operatorKey struct{}

// WithOperator returns a context whose requests are those of the person of that
// name: the one who approves. Whoever mounts [Admin] knows who it is.
func WithOperator(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, operatorKey{}, name)
}

// operator is who makes a request.
func operator(r *http.Request) string {
	name, _ := r.Context().Value(operatorKey{}).(string)
	return cmp.Or(name, "the operator")
}

func (a *admin) policies(w http.ResponseWriter, _ *http.Request) error {
	s := a.host.Status()
	return writeJSON(w, http.StatusOK, policyList{orEmpty(s.Policies), s.Audit})
}

// TestCall is a call that is held against the policies: of a tool by its registered
// name, or any other method. What it leaves out is empty.
type TestCall struct {
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // of the tool; default {}
	Method    string          `json:"method,omitempty"`    // instead of a tool
	Params    json.RawMessage `json:"params,omitempty"`    // of the method
	Extension string          `json:"extension,omitempty"` // whose tool or method it is, when it goes by its own name
	Caller    string          `json:"caller,omitempty"`
	Session   string          `json:"session,omitempty"`
}

// ReadTestCall reads one, and refuses what it cannot mean.
func ReadTestCall(data []byte) (c TestCall, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, protocol.Errorf(protocol.InvalidArguments, `a call such as {"tool": "ext_notes_add", "arguments": {}, "caller": "ada"} is needed: %w`, err)
	}
	switch {
	case c.Tool == "" && c.Method == "":
		err = errors.New("the call needs a tool or a method")
	case c.Tool != "" && (c.Method != "" || c.Params != nil):
		err = errors.New("the call has a tool with arguments, or a method with params, not both")
	case c.Tool == "" && c.Arguments != nil:
		err = errors.New("arguments are for a tool; a method has params")
	}
	if err != nil {
		return c, protocol.Errorf(protocol.InvalidArguments, "%w", err)
	}
	return c, nil
}

// Call returns it as a host takes it.
func (c TestCall) Call() *protocol.Call {
	call := &protocol.Call{Session: &protocol.Session{ID: c.Session, Caller: c.Caller}, Extension: c.Extension, Method: c.Method, Params: c.Params}
	if c.Tool != "" {
		call.Method = protocol.MethodToolsCall
		call.Params, _ = json.Marshal(protocol.ToolsCallParams{Name: c.Tool, Arguments: c.Arguments}) // both are JSON
	}
	return call
}

// TestResult is how the policies took a [TestCall].
type TestResult struct {
	Trace exthost.Trace `json:"trace"`
	Error *Fault        `json:"error,omitempty"` // what the caller would get instead of an answer
}

// NewTestResult returns the result of [exthost.Admin.TestCall]; or its error, when
// no policy was asked.
func NewTestResult(t exthost.Trace, err error) (TestResult, error) {
	if err != nil && t.ID == "" {
		return TestResult{}, err
	}
	r := TestResult{Trace: t}
	if err != nil {
		f := faultOf(err)
		r.Error = &f
	}
	return r, nil
}

func (a *admin) testCall(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArguments))
	if err != nil {
		return protocol.Errorf(protocol.InvalidArguments, "the call cannot be read: %w", err)
	}
	c, err := ReadTestCall(body)
	if err != nil {
		return err
	}
	result, err := NewTestResult(a.host.Admin().TestCall(r.Context(), c.Call()))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, result)
}

// defaultDecisions is how many decisions are listed when nobody says.
const defaultDecisions = 100

func (a *admin) decisions(w http.ResponseWriter, r *http.Request) error {
	last, err := number(r, "last", defaultDecisions)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, decisionList{orEmpty(a.host.Admin().Traces(last))})
}

func (a *admin) decision(w http.ResponseWriter, r *http.Request) error {
	t, err := a.host.Admin().Trace(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, t)
}

func (a *admin) approvals(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, approvalList{orEmpty(a.host.Admin().Questions())})
}

func (a *admin) approve(w http.ResponseWriter, r *http.Request) error {
	return done(w, a.host.Admin().Approve(r.PathValue("id"), operator(r)))
}

func (a *admin) deny(w http.ResponseWriter, r *http.Request) error {
	var body Denial
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&body); err != nil && !errors.Is(err, io.EOF) {
		return protocol.Errorf(protocol.InvalidArguments, "the reason cannot be read: %w", err)
	}
	return done(w, a.host.Admin().Deny(r.PathValue("id"), operator(r), body.Reason))
}

func (a *admin) pins(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, pinList{orEmpty(a.host.Admin().Pins())})
}

func (a *admin) approvePin(w http.ResponseWriter, r *http.Request) error {
	return done(w, a.host.Admin().ApprovePin(r.PathValue("extension"), r.PathValue("tool"), operator(r)))
}

// done answers a request that has no other answer than that it was done.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
