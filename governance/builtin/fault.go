package builtin

import (
	"errors"
	"fmt"

	"github.com/exthost/exthost/governance"
)

// fault is an error in the value at a key of a spec; "" is the spec itself.
type fault struct {
	key string
	err error
}

func faultf(key, format string, args ...any) error { return &fault{key, fmt.Errorf(format, args...)} }

func (f *fault) Error() string {
	if f.key == "" {
		return f.err.Error()
	}
	return f.key + ": " + f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// Check returns every error in the spec of a built-in policy. It opens no files.
func Check(s governance.Spec) []governance.Problem {
	_, err := New(s)
	return problems(err, nil)
}

// problems converts joined errors.
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
