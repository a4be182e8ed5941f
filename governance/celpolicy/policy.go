// Package celpolicy makes the built-in policy cel. It is not part of package builtin, so that only
// programs that need it link cel-go, protobuf and antlr.
package celpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/governance/internal/settings"
	"github.com/exthost/exthost/protocol"
)

// config is the config of the built-in policy cel, which decides by an expression of the
// Common Expression Language:
//
//	when: tool == "ext_shell_run" && arguments.command.startsWith("rm")
//	action: deny                            # if the expression is true: deny (default) or ask
//	message: '"no " + arguments.command'    # an expression that returns the reason
//	code: no_rm                             # default: the category's
//	expiry: 10m                             # for ask; default 5m
//	where: client                           # for ask, as in the policy approval; default operator
//	remember: session                       # for ask: how long a yes holds: call (default) or session
//
// Variables: method, caller, session, node, extension, tool, risk (read, write, destroy; empty
// without a tool), direction (to_extension, to_caller) and flow (request, response) are strings;
// node is the cluster node of the caller, empty for this host. arguments holds the tool's
// arguments, or the params of another method. result is null in the request flow. error is null, or
// {code, message, data} when the extension answered with an error; result then is {content,
// isError, structuredContent} with that message and data. In category authentication, headers is
// the map of the request's HTTP headers by name in lower case, or null when the call did not come
// over HTTP. Whole numbers are int, others double.
//
// An expression that uses result or error runs in the response flow, one that uses flow in both,
// any other in the request flow. A missing member is an error, as is a text of more than 1 MiB in
// an expression that calls matches; a required policy then ends the call with
// governance_unavailable. Test has(arguments.x), or use arguments.?x.orValue(""). An expression
// about result.structuredContent also runs for errors, whose data has other members, and a required
// policy then withholds the text of the error: begin with error == null &&, if errors may pass
// unchecked.
//
// A text that risk, direction or flow never has is an error. The name of a tool, an extension or a
// caller that does not exist is a warning, as is an argument that the tools which the policy names
// have under a similar name.
type config struct {
	When    string            `json:"when"`
	Action  string            `json:"action"`
	Message string            `json:"message"`
	Code    string            `json:"code"`
	Expiry  settings.Duration `json:"expiry"`
	protocol.Asking
}

// maxCost bounds the cost of one evaluation. An evaluation of this cost takes about 10 ms.
const maxCost = 1_000_000

type policy struct {
	config
	when, message     cel.Program // message is nil when the config has none
	request, response bool        // the flows in which the policy decides
	matches           bool        // an expression calls matches
	patterns          []builtin.Pattern
}

// New makes the policy of s.Config. Its errors name the key and an example of a valid value.
func New(s governance.Spec) (governance.Policy, error) {
	p := &policy{}
	if err := settings.Decode(s.Config, &p.config); err != nil {
		return nil, err
	}
	if p.When == "" {
		return nil, settings.Wrong("config.when", `is missing; such as tool == "ext_shell_run"`)
	}
	env, err := newEnv(s.Category)
	if err != nil {
		return nil, err
	}
	errs := []error{settings.OneOf("action", &p.Action, string(governance.Deny), string(governance.Ask))}
	uses, when := make(map[string]bool), compared{field: "config.when"}
	if p.when, err = compile(env, p.When, cel.BoolType, uses, &when); err != nil {
		errs = append(errs, settings.Wrong("config.when", "%w", err))
	}
	outcome := uses["result"] || uses["error"]
	p.request, p.response = !outcome || uses["flow"], outcome || uses["flow"]
	if !p.request && p.Where.Client() {
		errs = append(errs, settings.Wrong("config.where",
			"the expression is about a response, which the client does not see before it is approved: leave where out"))
	}
	message := compared{field: "config.message"}
	if p.Message != "" {
		if p.message, err = compile(env, p.Message, cel.StringType, uses, &message); err != nil {
			errs = append(errs, settings.Wrong("config.message", "%w", err))
		}
	}
	p.matches, p.patterns = uses[matches], append(when.patterns, message.patterns...)
	return p, errors.Join(errs...)
}

// Check returns everything wrong with s.Config.
func Check(s governance.Spec) []governance.Problem {
	_, err := New(s)
	return settings.Problems(err)
}

func newEnv(c governance.Category) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(),
		ext.Strings(),
		cel.CrossTypeNumericComparisons(true),
		cel.Variable("arguments", cel.DynType),
		cel.Variable("result", cel.DynType),
		cel.Variable("error", cel.DynType),
	}
	for _, name := range []string{"method", "caller", "session", "node", "extension", "tool", "risk", "direction",
		"flow"} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	if c == governance.Authentication {
		options = append(options, cel.Variable("headers", cel.DynType))
	}
	return cel.NewEnv(options...)
}

// matches is the key that compile sets in uses when an expression calls the function matches, which
// runs a regular expression.
const matches = "matches()"

// compile compiles an expression of the given type. It adds the variables that it uses and the
// functions that it calls to uses, and its constants to with. A constant that a variable never has
// is an error.
func compile(env *cel.Env, text string, t *cel.Type, uses map[string]bool, with *compared) (cel.Program, error) {
	compiled, issues := env.Compile(text)
	if faults := issues.Errors(); len(faults) > 0 {
		f := faults[0]
		return nil, fmt.Errorf("%d:%d: %s", f.Location.Line(), f.Location.Column()+1, f.Message)
	}
	if is := compiled.OutputType(); !is.IsExactType(t) && !is.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("is a %s, not a %s", is, t)
	}
	ast.PostOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		with.note(e)
		switch e.Kind() {
		case ast.IdentKind:
			uses[e.AsIdent()] = true
		case ast.CallKind:
			uses[e.AsCall().FunctionName()+"()"] = true
		}
	}))
	if with.err != nil {
		return nil, with.err
	}
	return env.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
}

// Decide implements [governance.Policy].
func (p *policy) Decide(ctx context.Context, flow governance.Flow, x *governance.Exchange,
) (governance.Decision, error) {
	failed := x.Failure != nil && x.Response == nil // failed with an error that holds no text of the extension
	if flow == governance.Request && !p.request || flow == governance.Response && (!p.response || failed) {
		return governance.Decision{}, nil
	}
	vars := &variables{flow: flow, x: x, headers: protocol.HeadersOf(ctx), matches: p.matches}
	holds, _, err := p.when.Eval(vars)
	if err != nil && x.Failure != nil {
		err = fmt.Errorf("%w; test error == null first, because an error has no members of a result", err)
	}
	// vars.err first: a variable that cannot be decoded may look absent to the expression
	if err = cmp.Or(vars.err, err); err != nil {
		return governance.Decision{}, err
	}
	yes, ok := holds.Value().(bool)
	if !ok {
		return governance.Decision{}, fmt.Errorf("when is a %s, not a bool", holds.Type().TypeName())
	}
	if !yes {
		return governance.Decision{}, nil
	}
	d := governance.Decision{
		Action: governance.Action(p.Action),
		Code:   p.Code,
		Reason: "it is not allowed when " + p.When,
		Expiry: time.Duration(p.Expiry),
		Asking: p.Asking,
	}
	if p.message != nil { // an error in the message does not change the decision
		if text, _, err := p.message.Eval(vars); err == nil {
			d.Reason, _ = text.Value().(string)
		}
	}
	return d, nil
}
