package toolset

import (
	"encoding/json"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/internal/wire/mcpext"
	"github.com/exthost/exthost/protocol"
)

// Check returns the error for a request or notification, in either direction, about something of an extension
// that the toolset hides. params have the extension's own names. The answer depends on patterns only, not on
// whether the thing exists. Catalog tools are looked up in [View.Tools] instead, and tasks belong to their tools.
func (v *View) Check(extension, method string, params json.RawMessage) error {
	if v == nil {
		return nil
	}
	if !v.reached[extension] {
		return protocol.Errorf(protocol.ToolNotFound, "there is no extension %q", extension)
	}
	kind, name, err := subject(method, params)
	if err != nil {
		return err
	}
	switch kind {
	case "tool":
		if v.ShowsTool(extension, name) {
			return nil
		}
	case "prompt":
		if v.Shows(extension, name) {
			return nil
		}
	case "resource":
		if v.Resource(extension, name) {
			return nil
		}
	case kindAny:
		if v.whole(extension) {
			return nil
		}
		return protocol.Errorf(protocol.ToolNotFound,
			"%s is not served to this client here: its toolset shows a part of %s alone, and a request of this kind "+
				"may be about anything", name, extension)
	default:
		return nil
	}
	if kind == "tool" {
		return protocol.Errorf(protocol.ToolNotFound, "there is no tool %q", name)
	}
	return protocol.Errorf(protocol.InvalidArguments, "there is no %s %q", kind, name)
}

// about are the methods of MCP that concern nothing that a toolset can hide, or concern a whole list, which
// [View.Filter] filters. Other notifications may be about anything, as requests may: an extension can act on these
// too.
var about = map[string]bool{
	protocol.MethodInitialize:           true,
	protocol.MethodDiscover:             true,
	protocol.MethodPing:                 true,
	protocol.MethodSetLevel:             true,
	protocol.MethodToolsList:            true,
	protocol.MethodPromptsList:          true,
	protocol.MethodResourcesList:        true,
	protocol.MethodResourceTemplates:    true,
	protocol.MethodTasksList:            true,
	protocol.MethodTasksGet:             true,
	protocol.MethodTasksResult:          true,
	protocol.MethodTasksCancel:          true,
	protocol.MethodTasksUpdate:          true,
	protocol.MethodProgress:             true,
	protocol.MethodRootsListChanged:     true,
	protocol.MethodTaskStatus:           true,
	protocol.MethodMessage:              true,
	protocol.MethodElicitComplete:       true,
	protocol.MethodCancelled:            true,
	protocol.MethodToolsListChanged:     true,
	protocol.MethodPromptsListChanged:   true,
	protocol.MethodResourcesListChanged: true,
}

// namedBy has, by method, the kind of the thing that a request is about, and the member of its params that names the
// thing.
var namedBy = map[string]struct{ kind, member string }{
	protocol.MethodToolsCall:            {"tool", "name"},
	protocol.MethodPromptsGet:           {"prompt", "name"},
	protocol.MethodResourceUpdated:      {"resource", "uri"},
	protocol.MethodResourcesRead:        {"resource", "uri"},
	protocol.MethodResourcesSubscribe:   {"resource", "uri"},
	protocol.MethodResourcesUnsubscribe: {"resource", "uri"},
	protocol.MethodDirectoryRead:        {"resource", "uri"},
}

// subject returns the kind and the name of the thing that a request is about. name is "" for a thing without a name.
func subject(method string, params json.RawMessage) (kind, name string, err error) {
	if by, ok := namedBy[method]; ok {
		return named(by.kind, method, params, by.member)
	}
	if method == protocol.MethodComplete {
		return completed(params)
	}
	if about[method] || isOwnedList(method) {
		return "", "", nil
	}
	for name := range rawjson.Members(params) {
		switch {
		case name == "_meta" || name == "cursor" || strings.EqualFold(name, "uri"):
		default: // may name something else
			return kindAny, method, nil
		}
	}
	if value, err := one(method, params, "uri"); err != nil && value != nil {
		return "", "", err
	} else if value == nil {
		return kindAny, method, nil
	}
	return named("resource", method, params, "uri")
}

// completed returns the subject of completion/complete.
func completed(params json.RawMessage) (kind, name string, err error) {
	ref, err := one(protocol.MethodComplete, params, "ref")
	if err != nil {
		return "", "", err
	}
	_, of, err := named("", protocol.MethodComplete, ref, "type")
	if err != nil {
		return "", "", err
	}
	if of == "ref/prompt" {
		return named("prompt", protocol.MethodComplete, ref, "name")
	}
	return named("resource", protocol.MethodComplete, ref, "uri")
}

// kindAny is the kind of requests that may be about anything: of methods of extensions of MCP and other unknown
// methods, unless a URI is all that they name.
const kindAny = "any"

// named returns the text of member key of params.
func named(kind, method string, params json.RawMessage, key string) (_, name string, err error) {
	value, err := one(method, params, key)
	if err != nil {
		return "", "", err
	}
	name, ok := rawjson.Text(value)
	if !ok {
		return "", "", needs(method, key)
	}
	return kind, name, nil
}

// one returns member key of an object. It refuses an object that an extension may read differently: with two such
// members, or one in another case.
func one(method string, object json.RawMessage, key string) (value json.RawMessage, err error) {
	for name, v := range rawjson.Members(object) {
		switch {
		case !strings.EqualFold(name, key):
		case name != key || value != nil:
			return value, needs(method, key)
		default:
			value = v
		}
	}
	if value == nil {
		return nil, needs(method, key)
	}
	return value, nil
}

func needs(method, key string) error {
	return protocol.Errorf(protocol.InvalidArguments, "%s needs one %q", method, key)
}

// isOwnedList reports whether method lists the items of an extension of MCP.
func isOwnedList(method string) bool {
	_, verb, _ := strings.Cut(method, "/")
	return verb == "list" && mcpext.MayOwn(method)
}
