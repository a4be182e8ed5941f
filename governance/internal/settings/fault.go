package settings

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

// Wrong returns an error about the value at a key of a spec, such as config.when; ""
// is the spec itself.
func Wrong(key, format string, args ...any) error {
	return &fault{key, fmt.Errorf(format, args...)}
}

func (f *fault) Error() string {
	if f.key == "" {
		return f.err.Error()
	}
	return f.key + ": " + f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// Problems takes joined errors apart. Those of [Wrong] keep their key.
func Problems(err error) []governance.Problem {
	if err == nil {
		return nil
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var found []governance.Problem
		for _, err := range list.Unwrap() {
			found = append(found, Problems(err)...)
		}
		return found
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return []governance.Problem{{Field: f.key, Message: f.err.Error()}}
	}
	return []governance.Problem{{Message: err.Error()}}
}
