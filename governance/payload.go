package governance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// payload is what a policy may change in the flow.
func (g *passage) payload(flow Flow) json.RawMessage {
	if flow == Request {
		return g.x.Request
	}
	return g.x.Response
}

func (g *passage) change(flow Flow, to json.RawMessage) {
	if flow == Request {
		g.x.Request = to
	} else {
		g.x.Response = to
	}
}

// check returns what a policy wants to put in the place of a payload as it may go
// out: an object, of a bearable size, and still the same call.
func (g *passage) check(flow Flow, action Action, to json.RawMessage) (json.RawMessage, error) {
	what := "the " + string(flow) + " it returns"
	if len(to) > g.p.o.MaxJSON {
		return nil, fmt.Errorf("%s has %d bytes, over the limit of %d", what, len(to), g.p.o.MaxJSON)
	}
	if err := rawjson.Check(to); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", what, err)
	}
	to = bytes.TrimSpace(to)
	if to[0] != '{' {
		return nil, fmt.Errorf("%s is not an object", what)
	}
	x := g.x
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

// sameCall holds the params of a tools/call after a change against those before:
// who may call which tool has been decided.
func sameCall(before, after json.RawMessage) error {
	seen := make(map[string]json.RawMessage)
	for key, value := range rawjson.Members(after) {
		for _, own := range []string{"name", "arguments"} {
			if !strings.EqualFold(key, own) {
				continue
			}
			if _, twice := seen[own]; twice || key != own { // to some extensions it is the same
				return fmt.Errorf("the request it returns has a member %q beside %q", key, own)
			}
			seen[own] = value
		}
	}
	was, _ := rawjson.Text(rawjson.Get(before, "name"))
	if is, _ := rawjson.Text(seen["name"]); is != was {
		return fmt.Errorf("the request it returns calls %q instead of %q", is, was)
	}
	if arguments := bytes.TrimSpace(seen["arguments"]); len(arguments) > 0 && arguments[0] != '{' {
		return errors.New("the request it returns has arguments that are not an object")
	}
	return nil
}

// errorBody is an extension's own error as JSON-RPC carries it.
type errorBody struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// decideFailure lets content see the words of an extension that failed; what the
// host has to say about a failure is not for policies to change.
func (g *passage) decideFailure(ctx context.Context, c chain, left *time.Duration) error {
	x := g.x
	if x.Failure.Kind != protocol.ExtensionError {
		return nil
	}
	wire := x.Failure.Wire()
	body, err := json.Marshal(errorBody{wire.Code, wire.Message, wire.Data})
	if err != nil { // its data is no JSON: nobody could read it
		body, _ = json.Marshal(errorBody{Code: wire.Code, Message: wire.Message})
	}
	x.Response = body
	for _, m := range c.body {
		if m.spec.Category != Content || !m.spec.Match.fits(x) {
			continue
		}
		if err := g.step(ctx, Response, m, left, false); err != nil {
			return err
		}
	}
	if !bytes.Equal(body, x.Response) {
		var to errorBody
		_ = json.Unmarshal(x.Response, &to) // as check has found it
		changed := protocol.Errorf(protocol.ExtensionError, "%s", to.Message)
		changed.Extension, changed.Tool, changed.Code, changed.Data = x.Failure.Extension, x.Failure.Tool, to.Code, to.Data
		changed.Outcome, changed.RetryAfter, changed.Evidence = x.Failure.Outcome, x.Failure.RetryAfter, x.Failure.Evidence
		x.Failure = changed
	}
	x.Response = nil
	return nil
}
