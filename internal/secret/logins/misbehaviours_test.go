package logins_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
)

// signedIn signs in at s, and returns the store and the expired grant.
func signedIn(t *testing.T, s *oauthtest.Servers) (*logins.Store, *logins.Grant) {
	t.Helper()
	store, _, g := signedInAt(t, s)
	return store, g
}

// signedInAt is signedIn, and also returns the store's directory.
func signedInAt(t *testing.T, s *oauthtest.Servers) (*logins.Store, string, *logins.Grant) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	b, err := signin.NewBrowser(0, func(address string) {
		if resp, err := http.Get(address); err == nil {
			resp.Body.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	server := signin.Server{Place: logins.Place{ID: "x", Of: "/x", URL: s.URL}}
	g, err := server.SignIn(limited(t), b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store := logins.Open(dir, signin.Client)
	t.Cleanup(store.Close)
	expire(t, store, g)
	return store, dir, g
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// expire stores g with an expired access token.
func expire(t *testing.T, store *logins.Store, g *logins.Grant) {
	t.Helper()
	g.Issued, g.Expires = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	if err := store.Put(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// accepted reports whether the MCP server accepts a token.
func accepted(t *testing.T, s *oauthtest.Servers, token string) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	return resp.StatusCode != http.StatusUnauthorized
}

// renews sets the response to token requests.
func renews(status int, header http.Header, body string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Token = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
			body := strings.NewReplacer("REFRESH", r.FormValue("refresh_token"), "ESCAPE",
				"\\u001b]0;owned\\u0007\\u009b31m\\u202e").Replace(body)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
}

func tokens(change func(m map[string]any)) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) { s.Tokens = change }
}

const signInAgain = ": exthost secret login x"

// renewals are faults of authorization servers while a token is renewed.
var renewals = map[string]struct {
	set   func(s *oauthtest.Servers)
	want  string // part of the error; "": the server accepts the token
	again bool   // the error asks the user to sign in again
	asked int    // token requests during three calls
	rest  time.Duration
}{
	"nothing wrong":           {set: func(*oauthtest.Servers) {}, asked: 1},
	"the refresh token stays": {set: func(s *oauthtest.Servers) { s.NoRotation = true }, asked: 1},
	"no other refresh token":  {set: func(s *oauthtest.Servers) { s.NoRefresh = true }, asked: 1},
	"no type":                 {set: tokens(func(m map[string]any) { delete(m, "token_type") }), asked: 1},
	"a life that is a text":   {set: tokens(func(m map[string]any) { m["expires_in"] = "3600" }), asked: 1},
	"a life of nothing":       {set: tokens(func(m map[string]any) { m["expires_in"] = 0 }), asked: 1},
	"a life below zero":       {set: tokens(func(m map[string]any) { m["expires_in"] = -3600 }), asked: 1},
	"a life for ever":         {set: tokens(func(m map[string]any) { m["expires_in"] = int64(1) << 60 }), asked: 1},
	"no life":                 {set: tokens(func(m map[string]any) { delete(m, "expires_in") }), asked: 1},
	"fewer scopes":            {set: tokens(func(m map[string]any) { m["scope"] = "read" }), asked: 1},
	"an unknown client": {
		set:   renews(401, nil, `{"error":"invalid_client"}`),
		want:  "no longer knows the client (invalid_client)",
		again: true,
		asked: 1,
	},
	"a login that ended": {
		set:   renews(400, nil, `{"error":"invalid_grant"}`),
		want:  "no longer accepts the last one (invalid_grant)",
		again: true,
		asked: 1,
	},
	"a login that ended, as 200": {
		set:   renews(200, nil, `{"error":"invalid_grant"}`),
		want:  "no longer accepts the last one (invalid_grant)",
		again: true,
		asked: 1,
	},
	"a revoked login": {
		set:   func(s *oauthtest.Servers) { s.Revoke() },
		want:  "no longer accepts the last one (invalid_grant: token [redacted] is not valid)",
		again: true,
		asked: 1,
	},
	"a resource refused": {
		set:   renews(400, nil, `{"error":"invalid_target"}`),
		want:  "does not renew the last one (invalid_target)",
		again: true,
		asked: 1,
	},
	"an error that paints": {
		set:   renews(400, nil, `{"error":"invalid_grant","error_description":"aESCAPE\nb"}`),
		want:  "(invalid_grant: a]0;owned31m b)",
		again: true,
		asked: 1,
	},
	"an error with a secret": {
		set:   renews(400, nil, `{"error":"invalid_grant","error_description":"`+strings.Repeat("x", 185)+` REFRESH"}`),
		want:  "xx",
		again: true,
		asked: 1,
	},
	"an error of its own": {
		set:   renews(400, nil, `{"error":"REFRESH","error_description":"x"}`),
		want:  "it answered 400 Bad Request ([redacted]: x)",
		asked: 1,
		rest:  5 * time.Second,
	},
	"down": {
		set:   renews(500, nil, `down`),
		want:  "it answered 500 Internal Server Error",
		asked: 1,
		rest:  5 * time.Second,
	},
	"down, and says when": {
		set:   renews(503, http.Header{"Retry-After": {"7"}}, ``),
		want:  "it answered 503 Service Unavailable",
		asked: 1,
		rest:  7 * time.Second,
	},
	"too many requests": {
		set:   renews(429, http.Header{"Retry-After": {"11"}}, `{"error":"slow"}`),
		want:  "it answered 429 Too Many Requests (slow)",
		asked: 1,
		rest:  11 * time.Second,
	},
	"too many for ever": {
		set:   renews(429, http.Header{"Retry-After": {"999999999"}}, ``),
		want:  "it answered 429",
		asked: 1,
		rest:  time.Hour,
	},
	"too many for less than 0": {
		set:   renews(429, http.Header{"Retry-After": {"-1"}}, ``),
		want:  "it answered 429",
		asked: 1,
		rest:  5 * time.Second,
	},
	"no JSON": {
		set:   renews(200, nil, `<html>`),
		want:  "cannot parse json",
		asked: 1,
		rest:  5 * time.Second,
	},
	"no end": {set: endless, want: "cannot parse json", asked: 1, rest: 5 * time.Second},
	"no access token": {
		set:   renews(200, nil, `{"token_type":"bearer"}`),
		want:  "missing access_token",
		asked: 1,
		rest:  5 * time.Second,
	},
	"another type": {
		set:   renews(200, nil, `{"access_token":"x","token_type":"ESCAPEmac"}`),
		want:  "mac tokens, and exthost can send Bearer tokens alone",
		asked: 1,
		rest:  5 * time.Second,
	},
	"a token no header can have": {
		set:   renews(200, nil, `{"access_token":"a\r\nb","token_type":"bearer"}`),
		want:  "a token that no header can have",
		asked: 1,
		rest:  5 * time.Second,
	},
	"a redirect": {
		set:   renews(307, http.Header{"Location": {"/elsewhere"}}, ``),
		want:  "it answered 307",
		asked: 1,
		rest:  5 * time.Second,
	},
	"a redirect to a page": {
		set:   renews(303, http.Header{"Location": {"/elsewhere"}}, ``),
		want:  "it answered 303",
		asked: 1,
		rest:  5 * time.Second,
	},
}

func endless(s *oauthtest.Servers) {
	s.Token = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		for err := error(nil); err == nil; {
			_, err = io.WriteString(w, strings.Repeat(`{"a":`, 1<<10))
		}
		return true
	}
}

// TestMisbehavioursOfRenewal: each renewal returns a token, or an error that says what to do. After a refusal the
// server is not asked again at once.
func TestMisbehavioursOfRenewal(t *testing.T) {
	for name, tt := range renewals {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			store, g := signedIn(t, s)
			tt.set(s)
			before := s.Asked("/token")
			l := store.Login(g.Place)
			for range 3 {
				token, err := l.Token(limited(t))
				if tt.want == "" {
					if err != nil || !accepted(t, s, token) {
						t.Fatalf("%v", err)
					}
					continue
				}
				fault, ok := errors.AsType[*protocol.Error](err)
				switch text := fmt.Sprint(err); {
				case !ok || token != "" || !strings.Contains(text, tt.want) ||
					strings.ContainsAny(text, "\x1b\u009b\n") || strings.Contains(text, g.Refresh[:12]):
					t.Fatalf("%q, want %q", text, tt.want)
				case tt.again != strings.HasSuffix(fault.Message, signInAgain) ||
					tt.again != (fault.Kind == protocol.RequirementMissing) || fault.RetryAfter != tt.rest:
					t.Errorf("%q: %s, %v", text, fault.Kind, fault.RetryAfter)
				}
			}
			if n := s.Asked("/token") - before; n != tt.asked || s.Asked("/elsewhere") > 0 {
				t.Errorf("%d requests, and %d elsewhere", n, s.Asked("/elsewhere"))
			}
		})
	}
}
