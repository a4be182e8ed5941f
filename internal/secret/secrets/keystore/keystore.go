// Package keystore keeps secrets in the keyring of the system: the Keychain of macOS, the Credential
// Manager of Windows, the Secret Service of a desktop.
package keystore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/exthost/exthost/internal/secret/secrets"
)

// service is the name under which the keyring has the secrets.
const service = "exthost"

// Store is the keyring of the user. Its methods may be called by many goroutines at once.
type Store struct {
	Timeout time.Duration // of one request: a locked keyring asks its user
}

// running admits one request at a time. The keyring cannot be told to give a request up, so
// that one without an answer keeps its place, and the next ones time out instead of piling up.
var running = make(chan struct{}, 1)

// Lookup returns the value of a secret; the error is a [*secrets.Error].
func (s Store) Lookup(ctx context.Context, name string) (value string, err error) {
	value, err = s.ask(ctx, func() (string, error) { return keyring.Get(service, name) })
	switch {
	case err == nil:
		return value, nil
	case errors.Is(err, keyring.ErrNotFound):
		return "", &secrets.Error{
			Message: fmt.Sprintf("the secret %s is not in the keyring", name),
			Next:    "exthost secret set " + name,
			Missing: true,
		}
	}
	return "", &secrets.Error{
		Message: fmt.Sprintf("the secret %s: %v", name, err),
		Next:    "unlock the keyring, or state another secrets.provider: age needs no desktop",
	}
}

// Check knows nothing: to look may ask the user to unlock the keyring.
func (Store) Check(string) error { return nil }

// Set stores the value of a secret, in place of an earlier one.
func (s Store) Set(name, value string) error {
	_, err := s.ask(context.Background(), func() (string, error) { return "", keyring.Set(service, name, value) })
	return err
}

// Remove removes a secret. The error wraps [fs.ErrNotExist] where there is none.
func (s Store) Remove(name string) error {
	_, err := s.ask(context.Background(), func() (string, error) { return "", keyring.Delete(service, name) })
	if errors.Is(err, keyring.ErrNotFound) {
		return fs.ErrNotExist
	}
	return err
}

// ask makes a request, and gives it up at the end of ctx or of the time.
func (s Store) ask(ctx context.Context, request func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout,
		fmt.Errorf("the keyring gave no answer within %v", s.Timeout))
	defer cancel()
	type answer struct {
		value string
		err   error
	}
	answers := make(chan answer, 1)
	select {
	case running <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	go func() { // ends with the answer of the keyring; there is one at most
		defer func() { <-running }()
		value, err := request()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil && !errors.Is(a.err, keyring.ErrNotFound) {
			a.err = fmt.Errorf("the keyring cannot be used: %w", a.err)
		}
		return a.value, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
