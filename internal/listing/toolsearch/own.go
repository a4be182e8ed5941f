package toolsearch

import (
	"encoding/json"
	"sync"

	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/tools"
)

// Own returns the catalog of the tools with which a model finds and calls other tools, in both ways to call them.
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
		caller(tools.CallName, "Call a tool", "Calls a tool that "+tools.FindName+
			" has found, with arguments that follow its input schema, and returns what that tool returns.", ""),
		caller(tools.ReadName, "Call a tool that reads", "Calls a tool for which "+tools.FindName+" names "+
			tools.ReadName+": one that changes nothing. Arguments follow its input schema.",
			`{"readOnlyHint":true,"destructiveHint":false}`),
		caller(tools.WriteName, "Call a tool that writes", "Calls a tool for which "+tools.FindName+" names "+
			tools.WriteName+": one that changes something, and loses nothing.",
			`{"readOnlyHint":false,"destructiveHint":false}`),
		caller(tools.DestroyName, "Call a tool that may destroy", "Calls a tool for which "+tools.FindName+" names "+
			tools.DestroyName+": one that may delete or overwrite.",
			`{"readOnlyHint":false,"destructiveHint":true}`),
	} {
		own.Tools = append(own.Tools, protocol.Tool{Raw: json.RawMessage(descriptor)})
	}
	catalog, _ := tools.NewCatalog(1, []tools.Source{own}, nil) // the descriptors are constants
	return catalog
})

// caller returns the descriptor of a tool that calls others.
func caller(name, title, description, annotations string) string {
	if annotations != "" {
		annotations = `,"annotations":` + annotations
	}
	return `{"name":"` + name + `","title":"` + title + `","description":"` + description + `",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"tool":{"type":"string","minLength":1,"description":"the name of the tool"},` +
		`"arguments":{"type":"object","description":"its arguments; {} if it has none"}},` +
		`"required":["tool"],"additionalProperties":false}` + annotations + `}`
}

// callers are the tools that call others in place of ext_call, by the risk of the called tool.
var callers = map[protocol.Risk]string{
	protocol.RiskRead:    tools.ReadName,
	protocol.RiskWrite:   tools.WriteName,
	protocol.RiskDestroy: tools.DestroyName,
}

// Caller returns the tool that calls tools of a risk.
func (l *Listing) Caller(risk protocol.Risk) string {
	if l.Call == CallOne {
		return tools.CallName
	}
	return callers[risk.Known()]
}

// serves reports whether a search tool is served. ext_call is not, if calls are split: with it a client that
// asks its user before ext_destroy could be led around the question. A call by it is refused with the right name.
func (l *Listing) serves(name string) bool {
	return (name == tools.CallName) == (l.Call == CallOne) || name == tools.FindName
}

// CheckCaller returns an error with the right name if a tool is called by the wrong one of the tools that call others.
func (l *Listing) CheckCaller(by string, e *tools.Entry) error {
	right := l.Caller(e.Risk)
	if by == right {
		return nil
	}
	return protocol.Errorf(protocol.InvalidArguments, "%s is called with %s, not with %s: %s", e.Name, right, by,
		map[string]string{
			tools.CallName:    "that calls every tool here",
			tools.ReadName:    "it changes nothing",
			tools.WriteName:   "it may change something",
			tools.DestroyName: "it may delete or overwrite",
		}[right])
}

// Wrapped returns the params of the call inside a call of the tool by, which calls others. params and arguments are
// those of the call of that tool; members of params besides name and arguments stay. The error is of kind
// invalid_arguments.
func Wrapped(by string, params, arguments json.RawMessage) (json.RawMessage, error) {
	call, _ := Own().Lookup(by)
	if string(rawjson.Get(arguments, "arguments")) == "null" { // means {} in a direct call too
		arguments = rawjson.Delete(arguments, "arguments")
	}
	if err := call.Validate(arguments); err != nil {
		return nil, err
	}
	name, inner := rawjson.Get(arguments, "tool"), rawjson.Get(arguments, "arguments")
	if text, _ := rawjson.Text(name); tools.CallsOthers(text) {
		return nil, protocol.Errorf(protocol.InvalidArguments, "%s calls no %s: state the tool that is meant", by, text)
	}
	if inner == nil {
		inner = json.RawMessage("{}")
	}
	if params == nil {
		params = json.RawMessage("{}")
	}
	return rawjson.Edit(params, map[string]json.RawMessage{"name": name, "arguments": inner}), nil
}
