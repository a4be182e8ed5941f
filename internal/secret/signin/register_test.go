package signin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// again signs in again with the earlier grant's redirect URI.
func again(t *testing.T, s *oauthtest.Servers, settings signin.Settings, earlier *logins.Grant) (*logins.Grant, error) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	port := 0
	if earlier != nil {
		_, _ = fmt.Sscanf(earlier.Client.Redirect, "http://127.0.0.1:%d/", &port)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), bound, errors.New("the login has not ended"))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	b, err := signin.NewBrowser(port, browse(t, func() { giveUp(errGaveUp) }))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	server := &signin.Server{Place: logins.Place{ID: "x", Of: "/x", URL: s.URL}, Settings: settings}
	return server.SignIn(ctx, b, nil, earlier)
}

// TestClientsAreKept: a registered client is reused while its authorization server knows it, and never with
// another server.
func TestClientsAreKept(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	s.Secret = true
	first, err := signIn(t, s)
	if err != nil {
		t.Fatal(err)
	}
	same, err := again(t, s, signin.Settings{}, first)
	if err != nil || same.Client != first.Client || s.Asked("/register") != 1 {
		t.Errorf("%v; %d registrations", err, s.Asked("/register"))
	}
	expired := *first
	expired.Client.SecretExpires = time.Now().Add(-time.Second)
	moved := *first
	moved.Issuer = "https://before.example"
	ended := *first
	ended.Ended = "it has ended"
	for _, earlier := range []*logins.Grant{&expired, &moved, &ended} {
		if g, err := again(t, s, signin.Settings{}, earlier); err != nil || g.Client.ID == first.Client.ID ||
			g.Client.Secret == first.Client.Secret {
			t.Errorf("%+v: %v", earlier, err)
		}
	}
}

func TestMisbehavioursOfClients(t *testing.T) {
	mine := signin.Settings{ClientID: "mine", ClientSecret: "client-secret"}
	for name, tt := range map[string]struct {
		set      func(s *oauthtest.Servers)
		settings signin.Settings
		earlier  func(g *logins.Grant)
		want     string // part of the error; "": the user is signed in
		token    int    // expected token requests
	}{
		"the server forgot the client": {
			set:     answer("/token", 401, "application/json", `{"error":"invalid_client"}`),
			earlier: func(*logins.Grant) {},
			want:    "(invalid_client); exthost secret logout x, and sign in again as another client",
			token:   1,
		},
		"it refuses a client of today": {
			set:   answer("/token", 401, "application/json", `{"error":"invalid_client"}`),
			want:  "it answers 401 Unauthorized (invalid_client)",
			token: 1,
		},
		"another authorization server": {
			settings: mine,
			earlier:  func(g *logins.Grant) { g.Client.ID, g.Issuer = "mine", "https://before.example" },
			want:     "client_id is of the authorization server https://before.example",
		},
		"clients that sign": {
			set:  metadata("token_endpoint_auth_methods_supported", []string{"private_key_jwt", "tls_client_auth"}),
			want: "by private_key_jwt, tls_client_auth, which exthost cannot",
		},
		"clients that sign, or a secret": {set: func(s *oauthtest.Servers) {
			s.Secret = true
			s.Metadata = func(m map[string]any) {
				m["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt", "client_secret_post"}
			}
		}, token: 1},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			var earlier *logins.Grant
			if tt.earlier != nil {
				var err error
				if earlier, err = signIn(t, s); err != nil {
					t.Fatal(err)
				}
				tt.earlier(earlier)
			}
			before := s.Asked("/token")
			if tt.set != nil {
				tt.set(s)
			}
			_, err := again(t, s, tt.settings, earlier)
			if text := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) ||
				tt.earlier == nil && strings.Contains(text, "logout") {
				t.Errorf("%q, want %q", text, tt.want)
			}
			if n := s.Asked("/token") - before; n != tt.token {
				t.Errorf("%d requests for tokens", n)
			}
		})
	}
}
