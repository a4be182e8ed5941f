package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/jsonrpc"
	"github.com/exthost/exthost/protocol"
)

// Policy decides about exchanges between callers and extensions. It runs concurrently; ctx ends when the host
// stops waiting. An error, a panic or a zero Decision is no decision: the host then ends the exchange if the
// policy is required.
type Policy func(ctx context.Context, x *Exchange) (Decision, error)

// Exchange is one flow of an exchange, the request or the response, to decide about.
type Exchange protocol.DecideParams

// InResponse reports whether the exchange has a result or error. Otherwise it is a request that has not been sent
// to the extension.
func (x *Exchange) InResponse() bool { return x.Flow == "response" }

// Arguments returns the arguments of a tools/call or prompts/get, or nil.
func (x *Exchange) Arguments() json.RawMessage { return rawjson.Get(x.Request, "arguments") }

// WithArguments returns the request with arguments replaced, for [Modify].
func (x *Exchange) WithArguments(arguments json.RawMessage) json.RawMessage {
	return rawjson.Set(x.Request, "arguments", arguments)
}

// Decision is a policy's answer. Create it with [Allow], [Deny], [Modify], [Respond] or [Ask] and add fields as
// needed.
type Decision struct {
	Code       string          // of a denial: stable, for programs
	Reason     string          // for people and models
	Data       json.RawMessage // details for programs
	RetryAfter time.Duration   // until a denied call may be retried; 0: unknown
	Expiry     time.Duration   // of an approval request; 0: the host's default
	Asking     protocol.Asking // of an approval request: where a person is asked, and how long a yes holds

	word string
	json json.RawMessage // for modify and respond
}

// Allow lets the exchange pass as it is.
func Allow() Decision { return Decision{word: protocol.DecisionAllow} }

// Deny ends the exchange. The caller reads reason, which should suggest an alternative.
func Deny(code, reason string) Decision {
	return Decision{word: protocol.DecisionDeny, Code: code, Reason: reason}
}

// Modify replaces the params or, in the response flow, the result. Only policies of category content may do so.
func Modify(object json.RawMessage) Decision {
	return Decision{word: protocol.DecisionModify, json: object}
}

// Respond answers a request without calling the extension. Only policies of category content may do so.
func Respond(result json.RawMessage) Decision {
	return Decision{word: protocol.DecisionRespond, json: result}
}

// Ask requests a person's approval; reason is shown to that person.
func Ask(reason string) Decision { return Decision{word: protocol.DecisionAsk, Reason: reason} }

// OnDecide makes the extension a policy. It panics if called twice.
func (x *Extension) OnDecide(p Policy) {
	if x.policy != nil {
		panic("sdk: OnDecide is called twice")
	}
	x.policy = p
}

// decide asks the policy about one flow of an exchange.
func (x *Extension) decide(ctx context.Context, req *jsonrpc.Message) (json.RawMessage, error) {
	if x.policy == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this extension is no policy"}
	}
	var e Exchange
	if err := json.Unmarshal(req.Params, &e); err != nil {
		return nil, invalidParams(req.Method + ": " + err.Error())
	}
	c := x.begin(ctx, req)
	defer x.end(c)
	d, err := recovered(c, "policy", x.policy, &e)
	if err != nil {
		return nil, err
	}
	return d.encode(&e)
}

func (d *Decision) encode(e *Exchange) (json.RawMessage, error) {
	r := protocol.DecideResult{
		Decision:   d.word,
		Code:       d.Code,
		Reason:     d.Reason,
		Data:       d.Data,
		RetryAfter: d.RetryAfter.Seconds(),
		Expiry:     d.Expiry.Seconds(),
		Asking:     d.Asking,
	}
	switch {
	case d.word == "":
		return nil, errors.New("the policy returned no decision; return sdk.Allow() to let it pass")
	case d.word == protocol.DecisionRespond, d.word == protocol.DecisionModify && e.InResponse():
		r.Response = d.json
	case d.word == protocol.DecisionModify:
		r.Request = d.json
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // keep the author's JSON as written
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("the decision does not encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
