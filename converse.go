package exthost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// maxRounds is how often one call may be answered with questions.
const maxRounds = 16

// converse makes the call. An extension of the newer era cannot ask while it works:
// it answers with its questions, and is called again with what they brought. A
// caller of that era does so itself; for the others the host puts the questions.
func (r *routed) converse(ctx context.Context, i *instance, params json.RawMessage) (json.RawMessage, error) {
	r.asked = runtime.Request{Method: r.call.Method, Params: params, Client: r.upstream(i), Meta: r.target.context(r.call), Owner: r.owner()}
	request := &r.asked
	if !r.follows(params) || !r.wants(i, params) {
		return json.RawMessage("{}"), nil
	}
	if err := cmp.Or(unheld(i, params), r.mayAsk(i, params)); err != nil {
		return nil, err
	}
	params = r.leveled(ctx, i, params)
	request.Params = params
	for range maxRounds {
		result, err := i.Call(ctx, request)
		if err != nil {
			return nil, err
		}
		r.followed(params)
		r.began(i, params, result)
		if request.Client == nil || !wantsInput(result) || r.call.Session != nil && r.call.Session.Version >= protocol.MCP20260728 {
			return r.ownTasks(i, result), nil
		}
		if request.Params, err = answered(ctx, request.Client, params, result); err != nil {
			return nil, err
		}
	}
	return nil, protocol.Errorf(protocol.InvalidResponse, "it answered %d times with another question, and never with a result", maxRounds)
}

// unheld refuses the answers to questions of a call that nobody holds any more: to an
// extension of the older era they mean nothing, and it would run the call again.
func unheld(i *instance, params json.RawMessage) error {
	if !bytes.Contains(params, []byte("requestState")) || rawjson.Get(params, "requestState") == nil {
		return nil
	}
	if hs := i.Handshake(); hs != nil && hs.Era < protocol.MCP20260728 {
		e := protocol.Errorf(protocol.ExtensionError, "requestState: no call waits for these answers any more; make the call anew")
		e.Code = protocol.InvalidArguments.Code() // and not a result for the model, which has made no mistake
		return e
	}
	return nil
}

// owner is on whose behalf the call is made: a session's, or its own.
func (r *routed) owner() any {
	if r.call.Session != nil {
		return r.call.Session
	}
	return r
}

// wantsInput reports whether a result is questions.
func wantsInput(result json.RawMessage) bool {
	return bytes.Contains(result, []byte("input_required")) && string(rawjson.Get(result, "resultType")) == `"input_required"`
}

// answered returns params with the answers to the questions in result.
func answered(ctx context.Context, client protocol.Peer, params, result json.RawMessage) (json.RawMessage, error) {
	answers := []byte{'{'}
	for key, question := range rawjson.Members(rawjson.Get(result, "inputRequests")) {
		method, _ := rawjson.Text(rawjson.Get(question, "method"))
		answer, err := client.Call(ctx, method, rawjson.Get(question, "params"))
		if err != nil {
			return nil, err
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(append(append(answers, quote(key)...), ':'), answer...)
	}
	edits := map[string]json.RawMessage{"inputResponses": append(answers, '}'), "requestState": rawjson.Get(result, "requestState")}
	return rawjson.Edit(params, edits), nil
}
