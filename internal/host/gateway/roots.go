package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// The host answers roots/list of servers with the roots that the operator states. A modern server asks in a
// result: its other input requests go to the caller, and the host's answers are added when the caller comes back
// with its own.

// rootsState begins a requestState that wraps the server's and names the requests that the host answers.
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

// withRoots adds the host's answers to params with a requestState of [withoutRoots]. A caller that tampers with
// it gains nothing: it could answer any of the keys itself.
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
