package wire

import (
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// CheckCapability returns an error if a client with these capabilities must not be sent this request, because it has
// not declared the required capability (MCP, basic/lifecycle).
func CheckCapability(capabilities json.RawMessage, method string, params json.RawMessage) error {
	need, mode := "", ""
	switch method {
	case protocol.MethodSample:
		need = "sampling"
	case protocol.MethodRootsList:
		need = "roots"
	case protocol.MethodElicit:
		need = "elicitation"
		if mode, _ = rawjson.Text(rawjson.Get(params, "mode")); mode == "" {
			mode = "form"
		}
	default:
		return nil
	}
	has := rawjson.Get(capabilities, need)
	if has == nil || mode == "url" && rawjson.Get(has, mode) == nil ||
		mode == "form" && rawjson.Get(has, mode) == nil && rawjson.Get(has, "url") != nil {
		return protocol.Errorf(protocol.ToolNotFound, "%s: the client has not declared the capability %s", method, need)
	}
	return nil
}

// TakesRequests reports whether the client accepts at least one kind of request.
func TakesRequests(capabilities json.RawMessage) bool {
	return slices.ContainsFunc([]string{"sampling", "roots", "elicitation"},
		func(key string) bool { return rawjson.Get(capabilities, key) != nil })
}

// mayNeedInput are the methods that may be answered with input_required.
var mayNeedInput = map[string]bool{
	protocol.MethodToolsCall:     true,
	protocol.MethodPromptsGet:    true,
	protocol.MethodResourcesRead: true,
}

// MayAsk reports whether an extension may ask the client something during a modern request.
func MayAsk(method string, capabilities json.RawMessage) bool {
	return mayNeedInput[method] && TakesRequests(capabilities)
}
