package signin_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// errGaveUp is the cause with which tests cancel a login that nobody approves.
var errGaveUp = errors.New("nobody has approved")

// bound limits each login in a test.
const bound = time.Minute

// misbehaviour is a fault of the servers.
type misbehaviour struct {
	set   func(s *oauthtest.Servers)
	want  string // part of the error; "": the user is signed in
	not   string // text that the error must not contain
	token int    // expected token requests
}

// answer sets the response for a path of the authorization server.
func answer(path string, status int, contentType, body string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Any = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
}

// metadata sets a member of the authorization server's metadata; nil removes it.
func metadata(key string, value any) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Metadata = func(m map[string]any) {
			if m[key] = value; value == nil {
				delete(m, key)
			}
		}
	}
}

// back sets a parameter of the redirect; "" removes it.
func back(key, value string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Callback = func(q url.Values) {
			if q.Set(key, value); value == "" {
				q.Del(key)
			}
		}
	}
}

func challenge(text string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) { s.Challenge = func() string { return text } }
}

func both(a, b func(s *oauthtest.Servers)) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) { a(s); b(s) }
}

const metadataPath, escape = "/.well-known/oauth-authorization-server", "\x1b]0;owned\x07\u009b31m\u202e"

// discoveries are faults before the browser opens.
var discoveries = map[string]misbehaviour{
	"nothing wrong":                {set: func(*oauthtest.Servers) {}, token: 1},
	"401 without WWW-Authenticate": {set: challenge(""), token: 1},
	"several challenges": {
		set:   challenge(`Negotiate dG9rZW4=, Basic realm="", Bearer realm = "a, b=c", error_description=""`),
		token: 1,
	},
	"challenges that are broken": {set: challenge(`,;"=" Bearer realm="unterminated`), token: 1},
	"challenge without Bearer":   {set: challenge(`Basic realm="x"`), token: 1},
	"metadata elsewhere that is not": {
		set:  challenge(`Bearer resource_metadata="http://127.0.0.1:1/none"`),
		want: "the server's metadata at http://127.0.0.1:1/none",
	},
	"metadata over http": {
		set:  challenge(`Bearer resource_metadata="http://metadata.example/x"`),
		want: "does not begin with https://",
	},
	"metadata with escape sequences": {
		set:  challenge(`Bearer resource_metadata="http://127.0.0.1:1/` + "\u009b31m" + `"`),
		want: "the server's metadata",
		not:  "\u009b",
	},
	"another resource": {set: func(s *oauthtest.Servers) {
		s.Resource = func(m map[string]any) { m["resource"] = "https://other.example/mcp" }
	}, want: "a token for another server is not asked for"},
	"a resource below": {
		set:  func(s *oauthtest.Servers) { s.Resource = func(m map[string]any) { m["resource"] = s.URL + "/more" } },
		want: "a token for another server is not asked for",
	},
	"no authorization server": {
		set:  func(s *oauthtest.Servers) { s.Resource = func(m map[string]any) { delete(m, "authorization_servers") } },
		want: "name no authorization server",
	},
	"authorization server over http": {set: func(s *oauthtest.Servers) {
		s.Resource = func(m map[string]any) { m["authorization_servers"] = []string{"http://as.example"} }
	}, want: "does not begin with https://"},
	"authorization server without it": {
		set:  answer(metadataPath, 404, "text/plain", ""),
		want: "it has no metadata",
	},
	"metadata of another issuer": {
		set:  metadata("issuer", "https://honest.example"),
		want: "another server may have put them there",
	},
	"metadata that fail": {
		set:  answer(metadataPath, 500, "text/plain", "down"),
		want: "500 Internal Server Error",
	},
	"metadata that are no JSON": {
		set:  answer(metadataPath, 200, "text/html", "<html>"),
		want: "not JSON of the expected form",
	},
	"metadata that never end": {
		set:  endless(metadataPath, "application/json"),
		want: "more than 1048576 bytes",
	},
	"metadata that redirect for ever": {
		set: redirect(metadataPath, http.StatusFound,
			func(s *oauthtest.Servers) string { return s.Issuer + metadataPath }),
		want: "302 Found",
	},
	"PKCE not announced": {
		set:  metadata("code_challenge_methods_supported", nil),
		want: "PKCE with S256",
	},
	"PKCE without S256": {
		set:  metadata("code_challenge_methods_supported", []string{"plain"}),
		want: "PKCE with S256",
	},
	"no token endpoint": {set: metadata("token_endpoint", nil), want: "state no token_endpoint"},
	"no authorization endpoint": {
		set:  metadata("authorization_endpoint", nil),
		want: "state no authorization_endpoint",
	},
	"token endpoint over http": {
		set:  metadata("token_endpoint", "http://as.example/token"),
		want: "does not begin with https://",
	},
	"token endpoint with user": {
		set:  metadata("token_endpoint", "https://user:password@as.example/token"),
		want: "token_endpoint",
		not:  "password",
	},
	"token endpoint with fragment": {
		set:  metadata("token_endpoint", "https://as.example/token#x"),
		want: "it is no address of a server",
	},
	"authorization endpoint of a script": {
		set:  metadata("authorization_endpoint", "javascript:alert(1)"),
		want: "authorization_endpoint javascript:alert(1) is refused",
	},
	"authorization endpoint of a file": {
		set:  metadata("authorization_endpoint", "file:///etc/passwd"),
		want: "is refused",
	},
	"authorization endpoint of a shell": {
		set:  metadata("authorization_endpoint", "http://127.0.0.1:1/\"; touch /tmp/x `id` $(id)"),
		want: "is refused",
	},
	"authorization endpoint that paints": {
		set:  metadata("authorization_endpoint", "http://127.0.0.1:1/?x=\u009b31m"),
		want: "is refused",
		not:  "\u009b",
	},
	"registration refused": {
		set: answer("/register", 400, "application/json",
			`{"error":"invalid_redirect_uri","error_description":"no `+`loopback"}`),
		want: "state client_id under [transport.oauth]",
	},
	"registration forbidden": {
		set:  answer("/register", 403, "text/html", strings.Repeat("<p>", 1<<10)),
		want: "state client_id under [transport.oauth]",
	},
	"registration without an id": {
		set:  answer("/register", 201, "application/json", `{}`),
		want: "state client_id under [transport.oauth]",
	},
	"registration that paints": {
		set:  answer("/register", 400, "text/html", escape),
		want: "state client_id under [transport.oauth]",
		not:  "\x1b",
	},
	"no registration": {
		set:  metadata("registration_endpoint", nil),
		want: "state client_id under [transport.oauth]",
	},
}

// approvals are faults after the browser opens.
var approvals = map[string]misbehaviour{
	"answer of another issuer": {
		set:  back("iss", "https://other.example"),
		want: "is of the authorization server https://other.example",
	},
	"answer without its issuer": {set: back("iss", ""), want: "does not name its authorization server (iss)"},
	"answer of nearly the issuer": {
		set:  func(s *oauthtest.Servers) { back("iss", s.Issuer+"/")(s) },
		want: "is of the authorization server",
	},
	"issuer that is not announced": {
		set:   both(back("iss", ""), metadata("authorization_response_iss_parameter_supported", nil)),
		token: 1,
	},
	"issuer wrong, not announced": {
		set: both(back("iss", "https://other.example"),
			metadata("authorization_response_iss_parameter_supported", nil)),
		want: "is of the authorization server https://other.example",
	},
	"error of another issuer": {
		set: both(back("iss", "https://other.example"),
			func(s *oauthtest.Servers) { also(s, "error", "call 555-1234") }),
		want: "is of the authorization server",
		not:  "555-1234",
	},
	"state of another login": {set: back("state", "other"), want: errGaveUp.Error()},
	"answer without a state": {set: back("state", ""), want: errGaveUp.Error()},
	"refused in the browser": {set: func(s *oauthtest.Servers) {
		back("error", "access_denied")(s)
		also(s, "error_description", "no"+escape)
	}, want: "the login was refused in the browser: no", not: "\x1b"},
	"error in the browser": {
		set:  back("error", "server_error"+escape),
		want: "refuses the login (server_error",
		not:  "\x1b",
	},
	"no code":                 {set: back("code", ""), want: "has no code"},
	"a code of another login": {set: back("code", "stolen"), want: "invalid_grant", token: 1},

	"tokens that are no JSON": {
		set:   answer("/token", 200, "text/html", "<html>"),
		want:  "gives no token",
		token: 1,
	},
	"tokens that never end": {set: endless("/token", "application/json"), want: "gives no token", token: 1},
	"tokens without an access token": {
		set:   answer("/token", 200, "application/json", `{}`),
		want:  "missing access_token",
		token: 1,
	},
	"tokens that fail": {
		set:   answer("/token", 500, "text/plain", "down"),
		want:  "500 Internal Server Error",
		token: 1,
	},
	"tokens of another type": {
		set:   answer("/token", 200, "application/json", `{"access_token":"x","token_type":"DPoP"}`),
		want:  "gives DPoP tokens",
		token: 1,
	},
	"tokens that no header can have": {
		set:   answer("/token", 200, "application/json", `{"access_token":"a\r\nb: c","token_type":"bearer"}`),
		want:  "no header can have",
		token: 1,
	},
	"tokens by redirect": {
		set: redirect("/token", http.StatusSeeOther,
			func(s *oauthtest.Servers) string { return s.Issuer + "/elsewhere" }),
		want:  "gives no token",
		token: 1,
	},
	"tokens by redirect with the body": {
		set: redirect("/token", http.StatusTemporaryRedirect,
			func(s *oauthtest.Servers) string { return s.Issuer + "/elsewhere" }),
		want:  "gives no token",
		token: 1,
	},
	"an error that quotes secrets": {set: func(s *oauthtest.Servers) {
		s.Token = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":"CODE %s VERIFIER %s"}`, r.FormValue("code"),
				r.FormValue("code_verifier"))
			return true
		}
	}, want: "CODE [redacted] VERIFIER [redacted]", token: 1},
	"a token that the server refuses": {
		set:   answer("/token", 200, "application/json", `{"access_token":"x","token_type":"bearer"}`),
		want:  "refuses the token that its authorization server has given",
		token: 1,
	},
	"tokens without a type": {set: change(func(m map[string]any) { delete(m, "token_type") }), token: 1},
	"a life that is a text": {set: change(func(m map[string]any) { m["expires_in"] = "3600" }), token: 1},
	"a life that is no number": {
		set:   change(func(m map[string]any) { m["expires_in"] = "soon" }),
		want:  "gives no token",
		token: 1,
	},
	"a life below zero": {set: change(func(m map[string]any) { m["expires_in"] = -5 }), token: 1},
	"a life for ever": {
		set:   change(func(m map[string]any) { m["expires_in"] = int64(1) << 60 }),
		token: 1,
	},
	"more scopes than asked for": {set: change(func(m map[string]any) { m["scope"] = "everything" }), token: 1},
}

// also adds a parameter to the redirect.
func also(s *oauthtest.Servers, key, value string) {
	first := s.Callback
	s.Callback = func(q url.Values) { first(q); q.Set(key, value) }
}

func endless(path, contentType string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Any = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			w.Header().Set("Content-Type", contentType)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat(`{"a":`, 1<<10))
			}
			return true
		}
	}
}

func redirect(path string, status int, to func(s *oauthtest.Servers) string) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) {
		s.Any = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			http.Redirect(w, r, to(s), status)
			return true
		}
	}
}

// change edits token responses.
func change(f func(m map[string]any)) func(s *oauthtest.Servers) {
	return func(s *oauthtest.Servers) { s.Tokens = f }
}

func TestMisbehavioursOfDiscovery(t *testing.T) { misbehave(t, discoveries) }

func TestMisbehavioursOfApproval(t *testing.T) { misbehave(t, approvals) }

func misbehave(t *testing.T, all map[string]misbehaviour) {
	for name, tt := range all {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			tt.set(s)
			_, err := signIn(t, s)
			text := fmt.Sprint(err)
			if (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) ||
				tt.not != "" && strings.Contains(text, tt.not) || strings.ContainsAny(text, "\x1b\n") ||
				len(text) > 1000 {
				t.Errorf("%q, want %q", text, tt.want)
			}
			if n := s.Asked("/token"); n != tt.token || s.Asked("/elsewhere") > 0 {
				t.Errorf("the token endpoint got %d requests, and the other place %d", n, s.Asked("/elsewhere"))
			}
		})
	}
}

// TestRedirectedWithToken: a token is sent only to its origin, even if the server redirects.
func TestRedirectedWithToken(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		processtest.Leaks(t)
		got := make(chan string, 1)
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- r.Header.Get("Authorization")
		}))
		t.Cleanup(other.Close)
		s := oauthtest.New(t)
		s.Server = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") != "" {
				http.Redirect(w, r, other.URL, status)
			}
			return r.Header.Get("Authorization") != ""
		}
		if _, err := signInTo(t, &signin.Server{Place: logins.Place{URL: s.URL}, SSE: true}); err == nil ||
			!strings.Contains(err.Error(), "redirects") {
			t.Errorf("%d: %v", status, err)
		}
		if len(got) > 0 {
			t.Errorf("%d: the other server got %q", status, <-got)
		}
	}
}
