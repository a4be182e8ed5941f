package mcpserver

import (
	"encoding/json"

	"github.com/exthost/exthost/internal/rawjson"
	"github.com/exthost/exthost/protocol"
)

// undeclared is why a client with these capabilities may not be asked, nil when it
// may: nobody is asked for what he did not say he can do.
func undeclared(capabilities json.RawMessage, method string, params json.RawMessage) error {
	need, part := "", ""
	switch method {
	case protocol.MethodSample:
		need = "sampling"
	case protocol.MethodRootsList:
		need = "roots"
	case protocol.MethodElicit:
		need = "elicitation"
		if part, _ = rawjson.Text(rawjson.Get(params, "mode")); part == "" {
			part = "form"
		}
	default:
		return nil
	}
	has := rawjson.Get(capabilities, need)
	if has == nil || part == "url" && rawjson.Get(has, part) == nil ||
		part == "form" && rawjson.Get(has, part) == nil && rawjson.Get(has, "url") != nil {
		return protocol.Errorf(protocol.ToolNotFound, "%s: the client has not declared the capability %s", method, need)
	}
	return nil
}

// answerable reports whether a client with these capabilities can be asked anything.
func answerable(capabilities json.RawMessage) bool {
	for _, key := range []string{"sampling", "roots", "elicitation"} {
		if rawjson.Get(capabilities, key) != nil {
			return true
		}
	}
	return false
}
