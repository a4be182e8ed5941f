package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/host/dispatch"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// maxRounds bounds how many times a server may answer one call with input requests.
const maxRounds = 16

// RelayInputRequests is the [dispatch.Stage] that puts the input requests of a modern server to a legacy caller. A
// modern server asks in its result, and expects the call again with the answers; a modern caller sends it again
// itself. If the operator states roots, the host answers requests for roots.
func (g *Gateway) RelayInputRequests(next dispatch.Deliver) dispatch.Deliver {
	return func(ctx context.Context, c *dispatch.Call, params json.RawMessage) (json.RawMessage, error) {
		if err := refuseStaleAnswers(c, params); err != nil {
			return nil, err
		}
		// the roots that the operator states; nil: the caller is asked for roots
		roots := runtime.RootsResult(c.Target.Base().Spec.Roots)
		round := withRoots(params, roots)
		for range maxRounds {
			result, err := next(ctx, c, round)
			if err != nil || !needsInput(result) {
				return result, err
			}
			own, others := []string(nil), true
			if roots != nil {
				own, others = rootsKeys(result)
			}
			switch asksItself := isModern(c.Request.Session) || c.Sent.Client == nil; {
			case len(own) == 0 && asksItself:
				return result, nil
			case others && asksItself:
				return withoutRoots(result, own), nil
			}
			if round, err = withAnswers(ctx, c.Sent.Client, params, result, roots); err != nil {
				return nil, err
			}
		}
		return nil, protocol.Errorf(protocol.InvalidResponse,
			"it answered %d times with another input request, and never with a result", maxRounds)
	}
}

func isModern(s *protocol.Session) bool {
	return s != nil && protocol.IsModern(s.Version)
}

// refuseStaleAnswers refuses answers to input requests of a call that no longer waits: a legacy server would
// ignore them and carry out the call again.
func refuseStaleAnswers(c *dispatch.Call, params json.RawMessage) error {
	if c.IsPlain(params) || !bytes.Contains(params, []byte("requestState")) ||
		rawjson.Get(params, "requestState") == nil {
		return nil
	}
	if hs := c.Instance.Handshake(); hs != nil && !protocol.IsModern(hs.ProtocolVersion) {
		e := protocol.Errorf(protocol.ExtensionError,
			"requestState: no call waits for these answers any more; make the call anew")
		e.Code = protocol.InvalidArguments.Code() // an error, not a tool result: the model made no mistake
		return e
	}
	return nil
}

// needsInput reports whether a result consists of input requests.
func needsInput(result json.RawMessage) bool {
	return bytes.Contains(result, []byte("input_required")) &&
		string(rawjson.Get(result, "resultType")) == `"input_required"`
}

// withAnswers sends the input requests of result to the client, and returns params with the answers. Requests for
// roots are answered with roots, unless it is nil.
func withAnswers(ctx context.Context, client protocol.Peer, params, result, roots json.RawMessage,
) (json.RawMessage, error) {
	answers := []byte{'{'}
	for key, input := range rawjson.Members(rawjson.Get(result, "inputRequests")) {
		method, _ := rawjson.Text(rawjson.Get(input, "method"))
		answer := roots
		if roots == nil || method != protocol.MethodRootsList {
			var err error
			if answer, err = client.Call(ctx, method, rawjson.Get(input, "params")); err != nil {
				return nil, err
			}
		}
		if len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(append(append(answers, rawjson.Quote(key)...), ':'), answer...)
	}
	edits := map[string]json.RawMessage{
		"inputResponses": append(answers, '}'),
		"requestState":   rawjson.Get(result, "requestState"),
	}
	return rawjson.Edit(params, edits), nil
}

// The host answers roots/list of servers with the roots that the operator states. A modern server asks in a result:
// its other input requests go to the caller, and the host's answers are added when the caller comes back with its own
// answers.

// rootsState is the prefix of a requestState that wraps the server's own and names the requests that the host
// answers.
const rootsState = "exthost-roots."

// maxRootsKeys bounds the input requests in such a state.
const maxRootsKeys = 64

// answered is the content of such a state.
type answered struct {
	Keys  []string        `json:"keys"`  // keys of the requests that the host answers
	State json.RawMessage `json:"state"` // the server's requestState; null if it had none
}

// rootsKeys returns the keys of the input requests for roots in result, and whether there are others.
func rootsKeys(result json.RawMessage) (keys []string, others bool) {
	for key, request := range rawjson.Members(rawjson.Get(result, "inputRequests")) {
		if method, _ := rawjson.Text(rawjson.Get(request, "method")); method == protocol.MethodRootsList &&
			len(keys) < maxRootsKeys {
			keys = append(keys, key)
		} else {
			others = true
		}
	}
	return keys, others
}

// withoutRoots returns result without the input requests of keys, for a modern caller.
func withoutRoots(result json.RawMessage, keys []string) json.RawMessage {
	requests := rawjson.Get(result, "inputRequests")
	for _, key := range keys {
		requests = rawjson.Delete(requests, key)
	}
	// strings and valid JSON always encode
	state, _ := json.Marshal(answered{keys, rawjson.Get(result, "requestState")})
	return rawjson.Edit(result, map[string]json.RawMessage{
		"inputRequests": requests,
		"requestState":  rawjson.Quote(rootsState + base64.RawURLEncoding.EncodeToString(state)),
	})
}

// withRoots adds the host's answers to params whose requestState is from [withoutRoots]. Tampering with that state
// gains a caller nothing: it could answer any of the keys itself.
func withRoots(params, roots json.RawMessage) json.RawMessage {
	if roots == nil || !bytes.Contains(params, []byte(rootsState)) {
		return params
	}
	text, _ := rawjson.Text(rawjson.Get(params, "requestState"))
	encoded, ours := strings.CutPrefix(text, rootsState)
	state, err := base64.RawURLEncoding.DecodeString(encoded)
	var a answered
	if !ours || err != nil || json.Unmarshal(state, &a) != nil || len(a.Keys) > maxRootsKeys {
		return params
	}
	if string(a.State) == "null" {
		a.State = nil
	}
	responses := rawjson.Get(params, "inputResponses")
	for _, key := range a.Keys {
		responses = rawjson.Set(responses, key, roots)
	}
	return rawjson.Edit(params, map[string]json.RawMessage{"inputResponses": responses, "requestState": a.State})
}
