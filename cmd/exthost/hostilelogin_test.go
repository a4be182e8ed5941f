package main

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
)

// What servers send while a user signs in is escaped for the terminal, and each failed login says why.
func TestHostileLogin(t *testing.T) {
	const paint = "\x1b]0;owned\x07\u009b31m\u202e"
	for name, tt := range map[string]struct {
		set  func(s *oauthtest.Servers)
		args []string
		want string
	}{
		"in the browser": {func(s *oauthtest.Servers) {
			s.Callback = func(q url.Values) {
				q.Set("error", "access_denied")
				q.Set("error_description", "no"+paint+"\nexthost: signed in")
			}
		}, nil, "the login was refused in the browser: no]0;owned31m exthost: signed in"},
		"in an error": {func(s *oauthtest.Servers) {
			s.Token = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"\u001b[2J\u202eno"}`))
				return true
			}
		}, nil, "(invalid_grant: [2Jno)"},
		"in an address": {func(s *oauthtest.Servers) {
			s.Metadata = func(m map[string]any) { m["authorization_endpoint"] = s.Issuer + "/authorize?" + paint }
		}, nil, "it is no address of a server"},
		"in the code for another device": {func(s *oauthtest.Servers) {
			s.Any = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/device" {
					_, _ = w.Write([]byte(`{"device_code":"x","user_code":"A\u001b[2JB","verification_uri":"` +
						s.Issuer + `","expires_in":-1}`))
				}
				return r.URL.Path == "/device"
			}
		}, []string{"--device"}, "enter the code A[2JB"},
		"in scopes": {func(s *oauthtest.Servers) {
			s.Tokens = func(m map[string]any) { m["scope"] = "read " + paint }
		}, nil, `read \u001b]0;owned\u0007\u009b31m\u202e`},
	} {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			s := oauthtest.New(t)
			tt.set(s)
			dir := project(t, map[string]string{
				"extensions/gh/plugin.toml": "[plugin]\nid = \"gh\"\nversion = \"0.1.0\"\n[transport]\nurl = \"" +
					s.URL + "\"\n",
			})
			login := program(dir, append([]string{"secret", "login", "gh"}, tt.args...)...)
			login.Env = append(login.Env, "BROWSER=approve")
			timeout := time.AfterFunc(patience, func() { login.Process.Kill() })
			defer timeout.Stop()
			out, err := login.CombinedOutput()
			text := string(out)
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && console.Invisible(r) }); i >= 0 ||
				!strings.Contains(text, tt.want) {
				t.Errorf("%v: %q, want %q", err, text, tt.want)
			}
			if strings.Contains(text, "\nexthost: signed in") ||
				(err == nil) != strings.Contains(text, "\nsigned in to gh") {
				t.Errorf("%v: %q", err, text)
			}
		})
	}
}
