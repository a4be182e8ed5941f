package stored

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/exthost/exthost/internal/secret/secrets"
)

// service is the service name of the entries in a keyring.
const service = "exthost"

// Keyring keeps secrets in the user's keyring: the macOS Keychain, the Windows Credential Manager, or the Secret
// Service of a desktop. It is safe for concurrent use.
type Keyring struct {
	Timeout time.Duration // per request; a locked keyring asks the user
}

// asking admits one request at a time. Requests to the keyring cannot be canceled: a hanging one keeps its slot,
// and later ones time out instead of piling up.
var asking = make(chan struct{}, 1)

// Lookup returns a secret's value. The error is a [*secrets.Error].
func (s Keyring) Lookup(ctx context.Context, name string) (value string, err error) {
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

// Check always returns nil, because looking could make the keyring ask the user to unlock it.
func (Keyring) Check(string) error { return nil }

// Set stores a secret, replacing an earlier value.
func (s Keyring) Set(name, value string) error {
	_, err := s.ask(context.Background(), func() (string, error) { return "", keyring.Set(service, name, value) })
	return err
}

// Remove removes a secret. The error wraps [fs.ErrNotExist] if there is none.
func (s Keyring) Remove(name string) error {
	_, err := s.ask(context.Background(), func() (string, error) { return "", keyring.Delete(service, name) })
	if errors.Is(err, keyring.ErrNotFound) {
		return fs.ErrNotExist
	}
	return err
}

// ask runs request, and stops waiting for it when ctx ends or after Timeout.
func (s Keyring) ask(ctx context.Context, request func() (string, error)) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout,
		fmt.Errorf("the keyring gave no answer within %v", s.Timeout))
	defer cancel()
	type answer struct {
		value string
		err   error
	}
	answers := make(chan answer, 1)
	select {
	case asking <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	go func() { // at most one; ends when the keyring answers
		defer func() { <-asking }()
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
