package signin_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// browse opens an address like a browser whose user approves at once. It calls refused if exthost refused the
// redirect.
func browse(t testing.TB, refused func()) func(string) {
	return func(address string) {
		resp, err := http.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			refused()
		}
	}
}

func signIn(t testing.TB, s *oauthtest.Servers, more ...string) (*logins.Grant, error) {
	t.Helper()
	return signInTo(t, &signin.Server{Place: logins.Place{ID: "x", Of: "/x", URL: s.URL}}, more...)
}

func signInTo(t testing.TB, s *signin.Server, more ...string) (*logins.Grant, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), bound, errors.New("the login has not ended"))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	b, err := signin.NewBrowser(0, browse(t, func() { giveUp(errGaveUp) }))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer http.DefaultClient.CloseIdleConnections()
	return s.SignIn(ctx, b, more, nil)
}

func TestSignIn(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	g, err := signIn(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if g.Access == "" || g.Refresh == "" || g.Resource != s.URL || g.Issuer != s.Issuer || !g.Client.Registered {
		t.Errorf("%+v", g)
	}
}
