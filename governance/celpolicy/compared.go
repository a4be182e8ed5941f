package celpolicy

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/exthost/exthost/governance"
	"github.com/exthost/exthost/governance/builtin"
	"github.com/exthost/exthost/internal/text"
	"github.com/exthost/exthost/protocol"
)

var (
	// selecting are the variables whose values the host can list, with what they are called in a [builtin.Pattern].
	selecting = map[string]string{"tool": "tools", "extension": "extensions", "caller": "callers"}
	// closed are all values of the variables that have few.
	closed = map[string][]string{
		"risk":      append(protocol.Risk("").Values(), ""),
		"direction": {"to_extension", "to_caller"},
		"flow":      governance.Flow("").Values(),
	}
)

// compared collects the constants that an expression compares variables with.
type compared struct {
	field    string // of the expression within the spec
	patterns []builtin.Pattern
	err      error // the first constant that its variable never has
}

// note adds the constants of one node of an expression.
func (c *compared) note(e ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		if s := e.AsSelect(); isArguments(s.Operand()) {
			c.add("arguments", s.FieldName())
		}
	case ast.CallKind:
		call := e.AsCall()
		switch args := call.Args(); {
		case len(args) == 2:
			c.noteOperator(call.FunctionName(), args[0], args[1])
		case len(args) == 1 && call.IsMemberFunction() && call.FunctionName() == "startsWith":
			if prefix, ok := textOf(args[0]); ok && call.Target().Kind() == ast.IdentKind {
				c.add(selecting[call.Target().AsIdent()], prefix+"*")
			}
		}
	}
}

func (c *compared) noteOperator(name string, left, right ast.Expr) {
	switch {
	case name == operators.OptSelect:
		if field, ok := textOf(right); ok && isArguments(left) {
			c.add("arguments", field)
		}
	case name == operators.In && right.Kind() == ast.ListKind:
		for _, element := range right.AsList().Elements() {
			c.compare(left, element)
		}
	case name == operators.Equals, name == operators.NotEquals:
		c.compare(left, right)
		c.compare(right, left)
	}
}

// compare adds a constant that a variable is compared with.
func (c *compared) compare(variable, constant ast.Expr) {
	word, ok := textOf(constant)
	if !ok || variable.Kind() != ast.IdentKind {
		return
	}
	name := variable.AsIdent()
	c.add(selecting[name], word)
	if values, few := closed[name]; few && !slices.Contains(values, word) && c.err == nil {
		c.err = fmt.Errorf("%s is never %q, but %s", name, word, strings.Join(values, ", "))
		if near := text.Nearest(word, values); near != "" {
			c.err = fmt.Errorf("%s is never %q, did you mean %q?", name, word, near)
		}
	}
}

func (c *compared) add(of, glob string) {
	if of != "" && glob != "" { // "" is no name
		c.patterns = append(c.patterns, builtin.Pattern{Field: c.field, Of: of, Glob: glob})
	}
}

func isArguments(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "arguments" }

func textOf(e ast.Expr) (word string, ok bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	word, ok = e.AsLiteral().Value().(string)
	return word, ok
}

// Patterns implements [builtin.Selector].
func (p *policy) Patterns() []builtin.Pattern { return p.patterns }
