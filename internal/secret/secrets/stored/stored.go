// Package stored finds secrets where other programs have put them: in variables of the host, in
// files, and behind a command.
package stored

import (
	"context"
	"fmt"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
)

// Env finds secrets in variables of the host, each in the variable of its name.
type Env struct {
	Environ []string // NAME=value
}

// Lookup returns the value of a secret; the error is a [*secrets.Error].
func (e Env) Lookup(_ context.Context, name string) (string, error) {
	value, ok := process.Lookup(e.Environ)(name)
	if !ok {
		return "", &secrets.Error{
			Message: fmt.Sprintf("the secret %s is not there: the host has no variable %s", name, name),
			Next:    e.HowToSet(name),
		}
	}
	value, err := secrets.Value([]byte(value))
	if err != nil {
		return "", &secrets.Error{Message: fmt.Sprintf("the secret %s: %v", name, err), Next: e.HowToSet(name)}
	}
	return value, nil
}

// Check is Lookup without the value.
func (e Env) Check(name string) error {
	_, err := e.Lookup(context.Background(), name)
	return err
}

// HowToSet says how the value of a secret is set, which the program does not do here.
func (Env) HowToSet(name string) string {
	return "set the variable " + name + ", and start the host with it"
}
