package governance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// payload is the JSON that a policy may change in the flow: the request or the response.
func (x *Exchange) payload(flow Flow) *json.RawMessage {
	if flow == Request {
		return &x.Request
	}
	return &x.Response
}

// check validates the JSON with which a policy replaces a payload. It must be an object within the
// size limit, and must not change which tool is called.
func (r *exchangeRun) check(flow Flow, action Action, to json.RawMessage) (json.RawMessage, error) {
	what := "the " + string(flow) + " it returns"
	if len(to) > r.p.o.MaxJSON {
		return nil, fmt.Errorf("%s has %d bytes, over the limit of %d", what, len(to), r.p.o.MaxJSON)
	}
	if err := rawjson.Check(to); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", what, err)
	}
	to = bytes.TrimSpace(to)
	if to[0] != '{' {
		return nil, fmt.Errorf("%s is not an object", what)
	}
	x := r.x
	if flow == Request && action == Modify {
		if err := strictjson.NoTwins(to); err != nil {
			return nil, fmt.Errorf("%s is ambiguous: %w", what, err)
		}
	}
	switch {
	case action == Respond:
	case flow == Request && x.Method == protocol.MethodToolsCall && x.ToChild:
		return to, sameCall(x.Request, to)
	case flow == Response && x.Failure != nil:
		var e errorBody
		if err := json.Unmarshal(to, &e); err != nil || e.Message == "" {
			return nil, fmt.Errorf("%s is not an error with code and message, which it was", what)
		}
	}
	return to, nil
}

// sameCall checks that a changed tools/call names the same tool. Policies that do not run again,
// such as rate limits, have decided about that tool.
func sameCall(before, after json.RawMessage) error {
	for key := range rawjson.Members(after) {
		for _, own := range []string{"name", "arguments"} {
			if key != own && strings.EqualFold(key, own) { // some extensions decode member names case-insensitively
				return fmt.Errorf("the request it returns has a member %q in place of %q", key, own)
			}
		}
	}
	was, _ := rawjson.Text(rawjson.Get(before, "name"))
	if is, _ := rawjson.Text(rawjson.Get(after, "name")); is != was {
		return fmt.Errorf("the request it returns calls %q instead of %q", is, was)
	}
	if arguments := bytes.TrimSpace(rawjson.Get(after, "arguments")); len(arguments) > 0 && arguments[0] != '{' {
		return errors.New("the request it returns has arguments that are not an object")
	}
	return nil
}

// errorBody is an extension's own error in its JSON-RPC form.
type errorBody struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// quoting are the kinds of errors whose message or data may quote an extension.
var quoting = []protocol.Kind{
	protocol.ExtensionError,
	protocol.InvalidJSON,
	protocol.InvalidResponse,
	protocol.ProtocolVersion,
	protocol.HandshakeInvalid,
	protocol.HandshakeTimeout,
	protocol.SpawnFailed,
	protocol.ChildExited,
	protocol.NotReady,
	protocol.Failed,
}

// decideFailure runs the response flow on an error, with its JSON as the response. All policies
// decide about an error that the extension returned; only content policies decide about an error of
// the host that may quote the extension.
func (r *exchangeRun) decideFailure(ctx context.Context, c chain, remaining *time.Duration) error {
	x := r.x
	members := c.deciding
	switch {
	case !slices.Contains(quoting, x.Failure.Kind):
		return r.observe(ctx, Response, c, remaining)
	case x.Failure.Kind != protocol.ExtensionError:
		members = guarding(members, Content)
	}
	body := errorJSON(x.Failure)
	x.Response = body
	defer func() { x.Response = nil }()
	if err := r.observe(ctx, Response, c, remaining); err != nil {
		return err
	}
	if err := r.round(ctx, Response, members, remaining, false); err != nil {
		return err
	}
	if !bytes.Equal(body, x.Response) {
		var to errorBody
		_ = json.Unmarshal(x.Response, &to) // check has validated it
		changed := *x.Failure               // calls that fail together may share an error
		changed.Message, changed.Data = to.Message, to.Data
		if changed.Kind == protocol.ExtensionError {
			changed.Code = to.Code
		}
		x.Failure = &changed
	}
	return nil
}

// errorJSON returns e as policies see it: {code, message, data}, without the names that the
// host adds for the caller.
func errorJSON(e *protocol.Error) json.RawMessage {
	code := e.Wire().Code
	body, err := json.Marshal(errorBody{code, e.Message, e.Data})
	if err != nil { // the data is not JSON, so no client could read it
		body, _ = json.Marshal(errorBody{Code: code, Message: e.Message})
	}
	return body
}
