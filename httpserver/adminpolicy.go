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
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

var policyOperations = []operation{
	{
		method:  "GET",
		path:    "/policies",
		summary: "The policies, in the order in which they decide, and the audit log",
		answer:  policyList{},
		handle:  getPolicies,
	},
	{
		method:  "POST",
		path:    "/policies/test",
		summary: "Have the policies judge a call without making it",
		body:    TestCall{},
		answer:  TestResult{},
		handle:  testCall,
	},
	{
		method: "POST",
		path:   "/policies/rehearse",
		summary: "Have one policy decide about the latest calls, which the host has kept, without making them and " +
			"without a record",
		body:   PolicyRehearsal{},
		answer: status.Rehearsal{},
		handle: rehearse,
	},
	{
		method:  "GET",
		path:    "/decisions",
		summary: "The decisions on the latest exchanges, newest first",
		query:   []parameter{{"last", "how many; default 100"}},
		answer:  decisionList{},
		handle:  getDecisions,
	},
	{
		method:  "GET",
		path:    "/decisions/{id}",
		summary: "One decision",
		answer:  exthost.Trace{},
		handle:  func(h *exthost.Host, r *http.Request) (any, error) { return h.Admin().Trace(r.PathValue("id")) },
	},
	{
		method: "GET",
		path:   "/approvals",
		summary: "The calls that wait for a person's approval, at this host and at other nodes of its cluster, " +
			"oldest first",
		answer: status.Approvals{},
		handle: func(h *exthost.Host, r *http.Request) (any, error) {
			return h.Nodes().Approvals(r.Context()), nil
		},
	},
	{
		method:  "POST",
		path:    "/approvals/{id}/approve",
		summary: "Approve the call, once; NODE/ID is one that waits at another node",
		handle:  onOne(exthost.Nodes.Approve),
	},
	{
		method:  "POST",
		path:    "/approvals/{id}/deny",
		summary: "Deny the call; the body may be empty",
		body:    Denial{},
		handle:  deny,
	},
	{
		method:  "GET",
		path:    "/audit/{id}",
		summary: "The audit records of a call on all nodes, by the id of one of its decisions",
		answer:  status.CallRecords{},
		handle: func(h *exthost.Host, r *http.Request) (any, error) {
			return h.Nodes().Audit(r.Context(), r.PathValue("id"))
		},
	},
	{
		method:  "GET",
		path:    "/pins",
		summary: "The pinned descriptors, and changed ones that wait to be accepted",
		answer:  pinList{},
		handle: func(h *exthost.Host, _ *http.Request) (any, error) {
			return pinList{orEmpty(h.Admin().Pins())}, nil
		},
	},
	{
		method: "POST",
		path:   "/pins/{extension}/approve",
		summary: "Accept changed descriptors of an extension, if they still are as shown: pin those held back, and " +
			"end the warning about changed tools",
		body:   Acceptance{},
		handle: approvePin,
	},
	{
		method:  "POST",
		path:    "/pins/{extension}/{label}/approve",
		summary: "Accept one tool, or another item by its label, if it still is as shown",
		body:    Acceptance{},
		handle:  approvePin,
	},
}

// Answers of the operations that return lists.
type (
	policyList struct {
		Policies []status.Policy `json:"policies"`
		Audit    *status.Audit   `json:"audit,omitempty"` // nil without an audit log
	}
	decisionList struct {
		Decisions []exthost.Trace `json:"decisions"`
	}
	pinList struct {
		Pins []status.Pin `json:"pins"`
	}
)

// Denial is the body of a request to deny a call.
type Denial struct {
	Reason string `json:"reason,omitempty"`
}

// Acceptance is the body of a request to accept changed descriptors of an extension.
type Acceptance struct {
	Digests []string `json:"digests,omitempty"` // of the items shown; others are not accepted
}

type operatorKey struct{}

// WithOperator sets the person who makes the requests. The host records that person as the approver of calls.
// WithOperator is for middleware in front of [Admin].
func WithOperator(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, operatorKey{}, name)
}

// operator returns the person who makes a request.
func operator(r *http.Request) string {
	name, _ := r.Context().Value(operatorKey{}).(string)
	return cmp.Or(name, "the operator")
}

func getPolicies(h *exthost.Host, _ *http.Request) (any, error) {
	s := h.Status()
	return policyList{orEmpty(s.Policies), s.Audit}, nil
}

// TestCall is a call to be judged by the policies without being run: of a tool by its registered name, or of any
// other method.
type TestCall struct {
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // the tool's arguments; default {}
	Method    string          `json:"method,omitempty"`    // instead of a tool
	Params    json.RawMessage `json:"params,omitempty"`    // the method's params
	// The extension to which the names of tool and method belong; "" for registered names.
	Extension string `json:"extension,omitempty"`
	Caller    string `json:"caller,omitempty"`
	Session   string `json:"session,omitempty"`
	Node      string `json:"node,omitempty"` // cluster node that the call is supposed to come from
}

// ReadTestCall parses and checks a TestCall. The error is of kind invalid_arguments.
func ReadTestCall(data []byte) (c TestCall, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, protocol.Errorf(protocol.InvalidArguments,
			`a call such as {"tool": "ext_notes_add", "arguments": {}, "caller": "ada"} is needed: %w`, err)
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

// Call returns the call to pass to [exthost.Admin.TestCall].
func (c TestCall) Call() *protocol.Call {
	call := &protocol.Call{
		Session:   &protocol.Session{ID: c.Session, Caller: c.Caller, Node: c.Node},
		Extension: c.Extension,
		Method:    c.Method,
		Params:    c.Params,
	}
	if c.Tool != "" {
		call.Method = protocol.MethodToolsCall
		// cannot fail: c.Arguments is valid JSON
		call.Params, _ = json.Marshal(protocol.ToolsCallParams{Name: c.Tool, Arguments: c.Arguments})
	}
	return call
}

// TestResult is the policies' judgement of a [TestCall].
type TestResult struct {
	Trace exthost.Trace `json:"trace"`
	Error *Fault        `json:"error,omitempty"` // the error that the caller would get; nil if the call would run
}

// NewTestResult converts the results of [exthost.Admin.TestCall]. It returns err if no policy judged the call.
func NewTestResult(t exthost.Trace, err error) (TestResult, error) {
	if err != nil && t.ID == "" {
		return TestResult{}, err
	}
	r := TestResult{Trace: t}
	if err != nil {
		r.Error = new(FaultOf(err))
	}
	return r, nil
}

func testCall(h *exthost.Host, r *http.Request) (any, error) {
	body, err := readBody(r, "the call")
	if err != nil {
		return nil, err
	}
	c, err := ReadTestCall(body)
	if err != nil {
		return nil, err
	}
	return NewTestResult(h.Admin().TestCall(r.Context(), c.Call()))
}

// PolicyRehearsal is the body of a request to have a policy decide about the latest calls: one of the configuration by
// its name, or one that an entry of plugins states.
type PolicyRehearsal struct {
	Policy string `json:"policy,omitempty"`
	Entry  string `json:"entry,omitempty"` // instead of a name: the entry, as YAML, of a built-in policy
	Last   int    `json:"last,omitempty"`  // how many calls; default and maximum 256
	// Instead of the latest calls: those of a cassette, oldest first, at most 10,000.
	Calls []status.RecordedCall `json:"calls,omitempty"`
}

// maxRehearsed bounds the calls that a request may bring along.
const maxRehearsed = 10_000

func rehearse(h *exthost.Host, r *http.Request) (any, error) {
	var body PolicyRehearsal
	if err := decodeLarge(r, "the policy", maxArguments, &body); err != nil {
		return nil, err
	}
	if len(body.Calls) > maxRehearsed {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%d calls are more than %d", len(body.Calls),
			maxRehearsed)
	}
	if (body.Policy == "") == (body.Entry == "") {
		return nil, protocol.Errorf(protocol.InvalidArguments,
			`the name of a policy or an entry is needed, such as {"policy": "no_rm", "last": 100}`)
	}
	o := exthost.RehearseOptions{Policy: body.Policy, Last: body.Last, Calls: body.Calls}
	if body.Entry != "" {
		spec, err := config.ParsePolicy(body.Entry)
		if err != nil {
			return nil, protocol.Errorf(protocol.InvalidArguments, "%w", err)
		}
		o.Entry = &spec
	}
	return h.Admin().Rehearse(r.Context(), o)
}

const defaultDecisions = 100

func getDecisions(h *exthost.Host, r *http.Request) (any, error) {
	last, err := number(r, "last", defaultDecisions)
	if err != nil {
		return nil, err
	}
	return decisionList{orEmpty(h.Admin().Traces(last))}, nil
}

func deny(h *exthost.Host, r *http.Request) (any, error) {
	var body Denial
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 64<<10)).Decode(&body); err != nil &&
		!errors.Is(err, io.EOF) {
		return nil, protocol.Errorf(protocol.InvalidArguments, "the reason cannot be read: %w", err)
	}
	return nil, h.Nodes().Deny(r.Context(), r.PathValue("id"), operator(r), body.Reason)
}

func approvePin(h *exthost.Host, r *http.Request) (any, error) {
	var body Acceptance
	if err := decode(r, "the digests", &body); err != nil {
		return nil, err
	}
	return nil, h.Admin().AcceptTools(status.Selection{
		Extension: r.PathValue("extension"),
		Label:     r.PathValue("label"),
		Digests:   body.Digests,
	}, operator(r))
}
