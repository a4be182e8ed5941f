package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// Roots that the operator states are the host's answer to every roots/list of a server. A
// modern server asks in a result. Other input requests of the same result go to the caller;
// the host's answers are added when the caller comes back with its own.

// rootsState begins the requestState that stands for one of the server and for what the host answers.
const rootsState = "exthost-roots."

// maxRootsKeys bounds the input requests that such a state may name.
const maxRootsKeys = 64

// answered is what such a requestState holds.
type answered struct {
	Keys  []string        `json:"keys"`  // of the host's answers
	State json.RawMessage `json:"state"` // of the server; null when it had none
}

// rootsKeys returns the keys of the input requests in result that ask for roots, and whether
// there are others.
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

// withoutRoots returns a result for a modern caller without the input requests of keys.
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

// withRoots adds the host's answers to params that hold a requestState of [withoutRoots]. The caller may have
// changed it: then it names other keys, which the caller could as well have answered itself.
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
