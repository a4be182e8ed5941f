package signin_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/logins"
	"github.com/exthost/exthost/internal/oauthtest"
	"github.com/exthost/exthost/internal/process/processtest"
	"github.com/exthost/exthost/internal/signin"
)

// browse opens an address as a browser does whose user approves at once.
func browse(t testing.TB) func(string) {
	return func(address string) {
		resp, err := http.Get(address)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
	}
}

func signIn(t testing.TB, s *oauthtest.Servers, more ...string) (*logins.Grant, error) {
	t.Helper()
	b, err := signin.NewBrowser(0, browse(t))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := signin.Server{Place: logins.Place{ID: "x", Of: "/x", URL: s.URL}}
	return server.SignIn(ctx, b, more, nil)
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
