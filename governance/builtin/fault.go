package builtin

import (
	"errors"
	"fmt"

	"github.com/exthost/exthost/governance"
)

// fault is what is wrong with the value at a key of a spec; "" is the spec itself.
type fault struct {
	key string
	err error
}

func wrong(key, format string, args ...any) error { return &fault{key, fmt.Errorf(format, args...)} }

func (f *fault) Error() string {
	if f.key == "" {
		return f.err.Error()
	}
	return f.key + ": " + f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// Check returns everything wrong with what s states for the built-in policy that it
// names. It opens nothing.
func Check(s governance.Spec) []governance.Problem {
	_, err := New(s)
	return problems(err, nil)
}

// problems takes joined errors apart.
func problems(err error, found []governance.Problem) []governance.Problem {
	if err == nil {
		return found
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range list.Unwrap() {
			found = problems(err, found)
		}
		return found
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return append(found, governance.Problem{Field: f.key, Message: f.err.Error()})
	}
	return append(found, governance.Problem{Message: err.Error()})
}
