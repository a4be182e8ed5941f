package stored

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	"github.com/exthost/exthost/internal/testing/processtest"
)

func TestKeyring(t *testing.T) {
	processtest.Leaks(t)
	keyring.MockInit()
	s := Keyring{Timeout: time.Minute}
	if err := s.Set("github", "v1"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Lookup(t.Context(), "github"); err != nil || got != "v1" {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Remove("github"); err != nil {
		t.Error(err)
	}
	if err := s.Remove("github"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := s.Lookup(t.Context(), "github"); err == nil ||
		!strings.HasSuffix(err.Error(), "; exthost secret set github") {
		t.Errorf("%v", err)
	}
}

// TestKeyringThatIsLocked: an unusable keyring is an error that says what to do, and one that waits for its user
// blocks callers no longer than Timeout.
func TestKeyringThatIsLocked(t *testing.T) {
	processtest.Leaks(t)
	keyring.MockInitWithError(errors.New("the collection is locked"))
	s := Keyring{Timeout: time.Minute}
	for _, err := range []error{s.Set("x", "canary"), s.Remove("x"), look(s, "x")} {
		if err == nil || !strings.Contains(err.Error(), "the keyring cannot be used: the collection is locked") ||
			strings.Contains(err.Error(), "canary") {
			t.Errorf("%v", err)
		}
	}
	if err := look(s, "x"); !strings.Contains(err.Error(), "age needs no desktop") {
		t.Errorf("%v", err)
	}
	unlocked := make(chan struct{})
	slow := func() (string, error) { <-unlocked; return "late", nil }
	s.Timeout = time.Millisecond
	if _, err := s.ask(t.Context(), slow); err == nil || !strings.Contains(err.Error(), "no answer within 1ms") {
		t.Errorf("%v", err)
	}
	// the second request does not reach the keyring
	if _, err := s.ask(t.Context(), slow); err == nil || !strings.Contains(err.Error(), "no answer within 1ms") {
		t.Errorf("%v", err)
	}
	close(unlocked)
	s.Timeout = time.Minute
	if got, err := s.ask(t.Context(), slow); err != nil || got != "late" {
		t.Errorf("%q, %v", got, err)
	}
}

func look(s Keyring, name string) error {
	_, err := s.Lookup(context.Background(), name)
	return err
}
