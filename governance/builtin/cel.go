package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"github.com/exthost/exthost/governance"
)

// celConfig is the config of the built-in policy cel, which decides by an expression of the
// Common Expression Language:
//
//	when: tool == "ext_shell_run" && arguments.command.startsWith("rm")
//	action: deny                            # if the expression is true: deny (default) or ask
//	message: '"no " + arguments.command'    # an expression that returns the reason
//	code: no_rm                             # default: the category's
//	expiry: 10m                             # for ask; default 5m
//
// Variables: method, caller, session, extension, tool, direction (to_extension, to_caller)
// and flow (request, response) are strings; arguments holds the tool's arguments, or the
// params of another method; result is null in the request flow. Whole numbers are int,
// others double. An expression that uses result runs in the response flow, one that uses
// flow in both, any other in the request flow. A missing member is an error, and a required
// policy then ends the call with governance_unavailable: test has(arguments.x), or use
// arguments.?x.orValue("").
type celConfig struct {
	When    string   `json:"when"`
	Action  string   `json:"action"`
	Message string   `json:"message"`
	Code    string   `json:"code"`
	Expiry  duration `json:"expiry"`
}

// celCost bounds the cost of one evaluation, which is about 10 ms.
const celCost = 1_000_000

type celPolicy struct {
	celConfig
	when, message     cel.Program // message is nil when the config has none
	request, response bool        // the flows in which the policy decides
}

func newCEL(s governance.Spec) (governance.Policy, error) {
	p := &celPolicy{}
	if err := configure(s.Config, &p.celConfig); err != nil {
		return nil, err
	}
	if p.When == "" {
		return nil, faultf("config.when", `is missing; such as tool == "ext_shell_run"`)
	}
	env, err := celEnv()
	if err != nil {
		return nil, err
	}
	errs := []error{oneOf("action", &p.Action, denied, asked)}
	uses := make(map[string]bool)
	if p.when, err = celProgram(env, p.When, cel.BoolType, uses); err != nil {
		errs = append(errs, faultf("config.when", "%w", err))
	}
	p.request, p.response = !uses["result"] || uses["flow"], uses["result"] || uses["flow"]
	if p.Message != "" {
		if p.message, err = celProgram(env, p.Message, cel.StringType, uses); err != nil {
			errs = append(errs, faultf("config.message", "%w", err))
		}
	}
	return p, errors.Join(errs...)
}

func celEnv() (*cel.Env, error) {
	options := []cel.EnvOption{cel.OptionalTypes(), ext.Strings(), cel.CrossTypeNumericComparisons(true),
		cel.Variable("arguments", cel.DynType), cel.Variable("result", cel.DynType)}
	for _, name := range []string{"method", "caller", "session", "extension", "tool", "direction", "flow"} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	return cel.NewEnv(options...)
}

// celProgram compiles an expression of the given type and adds the variables that it uses
// to uses.
func celProgram(env *cel.Env, text string, t *cel.Type, uses map[string]bool) (cel.Program, error) {
	compiled, issues := env.Compile(text)
	if faults := issues.Errors(); len(faults) > 0 {
		f := faults[0]
		return nil, fmt.Errorf("%d:%d: %s", f.Location.Line(), f.Location.Column()+1, f.Message)
	}
	if is := compiled.OutputType(); !is.IsExactType(t) && !is.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("is a %s, not a %s", is, t)
	}
	ast.PostOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			uses[e.AsIdent()] = true
		}
	}))
	return env.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(celCost))
}

// Decide implements [governance.Policy].
func (p *celPolicy) Decide(_ context.Context, flow governance.Flow, x *governance.Exchange) (governance.Decision, error) {
	if flow == governance.Request && !p.request || flow == governance.Response && (!p.response || x.Failure != nil) {
		return governance.Decision{}, nil
	}
	vars := &celVars{flow: flow, x: x}
	holds, _, err := p.when.Eval(vars)
	if err = cmp.Or(vars.err, err); err != nil { // vars.err first: a variable that cannot be decoded may look absent to the expression
		return governance.Decision{}, err
	}
	yes, ok := holds.Value().(bool)
	if !ok {
		return governance.Decision{}, fmt.Errorf("when is a %s, not a bool", holds.Type().TypeName())
	}
	if !yes {
		return governance.Decision{}, nil
	}
	d := governance.Decision{Action: governance.Deny, Code: p.Code, Reason: "it is not allowed when " + p.When, Expiry: time.Duration(p.Expiry)}
	if p.Action == asked {
		d.Action = governance.Ask
	}
	if p.message != nil { // an error in the message does not change the decision
		if text, _, err := p.message.Eval(vars); err == nil {
			d.Reason, _ = text.Value().(string)
		}
	}
	return d, nil
}

// celVars decodes the variables on demand.
type celVars struct {
	flow              governance.Flow
	x                 *governance.Exchange
	arguments, result any
	err               error // of decoding
}

// Parent implements [interpreter.Activation].
func (v *celVars) Parent() interpreter.Activation { return nil }

// ResolveName implements [interpreter.Activation].
func (v *celVars) ResolveName(name string) (any, bool) {
	switch name {
	case "method":
		return v.x.Method, true
	case "caller":
		return v.x.Caller, true
	case "session":
		return v.x.Session, true
	case "extension":
		return v.x.Extension, true
	case "tool":
		return v.x.Tool, true
	case "direction":
		return v.x.Direction(), true
	case "flow":
		return string(v.flow), true
	case "arguments":
		if v.arguments == nil {
			v.arguments = v.decode(argumentsOf(v.x), decodeArguments)
		}
		return v.arguments, true
	case "result":
		if v.result == nil && v.flow == governance.Response {
			v.result = v.decode(v.x.Response, decodeResult)
		}
		return v.result, true
	}
	return nil, false
}

func (v *celVars) decode(text json.RawMessage, decode func(json.RawMessage) (any, error)) any {
	if len(text) == 0 {
		return map[string]any{}
	}
	var value any
	if value, v.err = decode(text); v.err != nil {
		return nil
	}
	return numbers(value)
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
