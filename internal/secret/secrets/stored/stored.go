// Package stored reads secrets from the host's environment, from files, from the output of a command, or from the
// system's keyring.
package stored

import (
	"context"
	"fmt"

	"github.com/exthost/exthost/internal/proc/process"
	"github.com/exthost/exthost/internal/secret/secrets"
)

// Env reads each secret from the host's environment variable of the same name.
type Env struct {
	Environ []string // NAME=value
}

// Lookup returns a secret's value. The error is a [*secrets.Error].
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

// HowToSet tells the user how to set a secret, as this program cannot.
func (Env) HowToSet(name string) string {
	return "set the variable " + name + ", and start the host with it"
}
