package toolsearch

import (
	"encoding/json"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Own returns the catalog of the two tools with which a model finds and calls other tools.
var Own = sync.OnceValue(func() *tools.Catalog {
	own := tools.Source{}
	for _, descriptor := range []string{
		`{"name":"` + tools.FindName +
			`","title":"Find tools","description":"Finds tools and skills for a task. ` +
			`Most tools of this server are not in its list: ` +
			`search for them here before you say that you cannot do something. ` +
			`Returns the best matches with their input schemas, ` +
			`and others of the same extension as name(argument: type, optional?: type).",` +
			`"inputSchema":{"type":"object","properties":{"query":{"type":"string","minLength":1` +
			`,"description":"what to do, in a few words, with the ` +
			`name of the service if there is one, such as: close an issue on github"}},` +
			`"required":["query"],"additionalProperties":false},` +
			`"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`,
		`{"name":"` + tools.CallName + `","title":"Call a tool","description":"Calls a tool that ` + tools.FindName +
			` has found, with arguments that follow its input schema, and returns what that tool returns.",` +
			`"inputSchema":{"type":"object","properties":{` +
			`"tool":{"type":"string","minLength":1,"description":"the name of the tool"},` +
			`"arguments":{"type":"object","description":"its arguments; {} if it has none"}},` +
			`"required":["tool"],"additionalProperties":false}}`,
	} {
		own.Tools = append(own.Tools, protocol.Tool{Raw: json.RawMessage(descriptor)})
	}
	catalog, _ := tools.NewCatalog(1, []tools.Source{own}, nil) // the descriptors are constants
	return catalog
})

// Wrapped returns the params of the call inside a call of ext_call. params and arguments are those of the call of
// ext_call; members of params besides name and arguments stay. The error is of kind invalid_arguments.
func Wrapped(params, arguments json.RawMessage) (json.RawMessage, error) {
	call, _ := Own().Lookup(tools.CallName)
	if string(rawjson.Get(arguments, "arguments")) == "null" { // means {} in a direct call too
		arguments = rawjson.Delete(arguments, "arguments")
	}
	if err := call.Validate(arguments); err != nil {
		return nil, err
	}
	name, inner := rawjson.Get(arguments, "tool"), rawjson.Get(arguments, "arguments")
	if text, _ := rawjson.Text(name); text == tools.CallName {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%s calls no %s: state the tool that is meant",
			tools.CallName, tools.CallName)
	}
	if inner == nil {
		inner = json.RawMessage("{}")
	}
	if params == nil {
		params = json.RawMessage("{}")
	}
	return rawjson.Edit(params, map[string]json.RawMessage{"name": name, "arguments": inner}), nil
}
