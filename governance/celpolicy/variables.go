package celpolicy

import (
	"cmp"
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/interpreter"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/internal/strictjson"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
)

// maxMatched bounds each text of the arguments and the result in an expression that calls matches,
// in bytes. CEL adds the cost of a call only after the call, and nothing interrupts a call:
// matching a text of 15 MB takes seconds.
const maxMatched = 1 << 20

// variables decodes the variables of an expression on demand.
type variables struct {
	flow              governance.Flow
	x                 *governance.Exchange
	headers           map[string]string // nil: the call did not come over HTTP
	arguments, result any
	failure           map[string]any // the error of the extension
	matches           bool           // texts are bounded by maxMatched
	err               error          // of the first variable that could not be decoded
}

// Parent implements [interpreter.Activation].
func (v *variables) Parent() interpreter.Activation { return nil }

// ResolveName implements [interpreter.Activation].
func (v *variables) ResolveName(name string) (any, bool) {
	value, known := values[name]
	if !known {
		return nil, false
	}
	return value(v), true
}

// values returns the value of each variable. An absent value is an untyped nil, which is null in CEL.
var values = map[string]func(*variables) any{
	"method":    func(v *variables) any { return v.x.Method },
	"caller":    func(v *variables) any { return v.x.Caller },
	"session":   func(v *variables) any { return v.x.Session },
	"node":      func(v *variables) any { return v.x.Node },
	"extension": func(v *variables) any { return v.x.Extension },
	"tool":      func(v *variables) any { return v.x.Tool },
	"risk":      func(v *variables) any { return string(v.x.ToolRisk()) },
	"direction": func(v *variables) any { return v.x.Direction() },
	"flow":      func(v *variables) any { return string(v.flow) },
	"headers": func(v *variables) any {
		if v.headers == nil {
			return nil
		}
		return v.headers
	},
	"arguments": func(v *variables) any {
		if v.arguments == nil {
			v.arguments = v.decode(argumentsOf(v.x), strictjson.Arguments)
		}
		return v.arguments
	},
	"result": func(v *variables) any {
		if v.result == nil && v.flow == governance.Response {
			if v.result = v.errorResult(); v.result == nil {
				v.result = v.decode(v.x.Response, strictjson.Result)
			}
		}
		return v.result
	},
	"error": func(v *variables) any {
		if failure := v.errorObject(); failure != nil {
			return failure
		}
		return nil
	},
}

// errorObject returns the error that the extension answered with, nil when there is none.
func (v *variables) errorObject() map[string]any {
	if v.failure == nil && v.flow == governance.Response && v.x.Failure != nil {
		v.failure, _ = v.decode(v.x.Response, strictjson.Result).(map[string]any)
	}
	return v.failure
}

// errorResult returns the error as the result of a tool, so that an expression about results
// covers errors too. It returns nil when there is no error.
func (v *variables) errorResult() any {
	failure := v.errorObject()
	if failure == nil {
		return nil
	}
	result := map[string]any{
		"isError": true,
		"content": []any{map[string]any{"type": "text", "text": failure["message"]}},
	}
	if data, ok := failure["data"]; ok {
		result["structuredContent"] = data
	}
	return result
}

// argumentsOf returns the arguments of a tool, or the params of another method.
func argumentsOf(x *governance.Exchange) json.RawMessage {
	if x.Method != protocol.MethodToolsCall || !x.ToChild {
		return x.Request
	}
	return rawjson.Get(x.Request, "arguments")
}

func (v *variables) decode(text json.RawMessage, decode func(json.RawMessage) (any, error)) any {
	if len(text) == 0 {
		return map[string]any{}
	}
	value, err := decode(text)
	if n := longest(value); err == nil && v.matches && n > maxMatched {
		err = fmt.Errorf("a text of %d bytes is too long for an expression with matches, whose limit is %d", n,
			maxMatched)
	}
	if err != nil {
		v.err = cmp.Or(v.err, err) // the first error counts
		return nil
	}
	return numbers(value)
}

// longest returns the length of the longest text in value, in bytes.
func longest(value any) (n int) {
	switch v := value.(type) {
	case string:
		return len(v)
	case map[string]any:
		for key, member := range v {
			n = max(n, len(key), longest(member))
		}
	case []any:
		for _, element := range v {
			n = max(n, longest(element))
		}
	}
	return n
}

// numbers replaces each json.Number by an int64 if possible, else by a float64.
func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // out of range is infinite
		return f
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return value
}
