package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/config"
	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/secret/signin"
	"github.com/exthost/exthost/internal/testing/hosttest"
	"github.com/exthost/exthost/internal/testing/oauthtest"
	"github.com/exthost/exthost/internal/testing/processtest"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/runtime"
)

// remoteFault is a fault of an MCP server after the login.
type remoteFault struct {
	// answers handles a request in place of the server; false passes it on.
	answers func(s *oauthtest.Servers, other string, w http.ResponseWriter, r *http.Request) bool
	want    string // part of each call's error; "": the calls succeed
	again   string // command named by the error
	renewed int    // most token requests for three calls
	sent    int    // most requests of calls
}

// refuses refuses every request with a token.
func refuses(status int, challenge ...string,
) func(*oauthtest.Servers, string, http.ResponseWriter, *http.Request) bool {
	return func(_ *oauthtest.Servers, _ string, w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "" {
			return false
		}
		w.Header()["Www-Authenticate"] = challenge
		w.WriteHeader(status)
		return true
	}
}

func leads(status int) func(*oauthtest.Servers, string, http.ResponseWriter, *http.Request) bool {
	return func(_ *oauthtest.Servers, other string, w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other+r.URL.Path, status)
		return true
	}
}

var remoteFaults = map[string]remoteFault{
	"nothing": {
		answers: func(*oauthtest.Servers, string, http.ResponseWriter, *http.Request) bool { return false },
		sent:    3,
	},
	"401 for every token": {
		answers: refuses(401, `Bearer error="invalid_token"`),
		want:    "refuses the token",
		again:   "exthost secret login gh",
		renewed: 1,
		sent:    4,
	},
	"401 for every token, no words": {
		answers: refuses(401),
		want:    "refuses the token",
		again:   "exthost secret login gh",
		renewed: 1,
		sent:    4,
	},
	"401 for every token, but Basic": {
		answers: refuses(401, `Basic realm="x"`),
		want:    "refuses the token",
		again:   "exthost secret login gh",
		renewed: 1,
		sent:    4,
	},
	"403 for want of scopes": {
		answers: refuses(403, `Basic, Bearer error="insufficient_scope", scope="repo read:org $(id) a;b"`),
		want:    "wants more than the last one allows (repo, read:org)",
		again:   "exthost secret login gh --scope repo,read:org",
		sent:    3,
	},
	"403 for want of scopes, not which": {
		answers: refuses(403, `Bearer error="insufficient_scope"`),
		want:    "wants more than the last one allows",
		again:   "exthost secret login gh",
		sent:    3,
	},
	"403 of another kind": {
		answers: refuses(403, `Bearer realm="x"`),
		want:    "the server forbids it (403 Forbidden)",
		sent:    3,
	},
	"403 without words": {
		answers: refuses(403),
		want:    "the server forbids it (403 Forbidden)",
		sent:    3,
	},
	"a redirect to another origin":   {answers: leads(307), want: "which is not followed", sent: 3},
	"a redirect to a page elsewhere": {answers: leads(302), want: "which is not followed", sent: 3},
}

// TestMisbehavioursOfServer: a misbehaving server affects only its own calls. Each ends at once with an error
// that says what to do, and the token is sent nowhere else.
func TestMisbehavioursOfServer(t *testing.T) {
	for name, tt := range remoteFaults {
		t.Run(name, func(t *testing.T) {
			processtest.Leaks(t)
			var astray, sent atomic.Int32
			var on atomic.Bool
			other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { astray.Add(1) }))
			t.Cleanup(other.Close)
			s := oauthtest.New(t)
			s.Server = func(w http.ResponseWriter, r *http.Request) bool {
				if !on.Load() || r.Method != http.MethodPost {
					return false
				}
				body, _ := io.ReadAll(r.Body)
				if r.Body = io.NopCloser(bytes.NewReader(body)); bytes.Contains(body,
					[]byte(protocol.MethodToolsCall)) {
					sent.Add(1) // reconnecting clients probe whether the session or the token was refused
				}
				return tt.answers(s, other.URL, w, r)
			}
			h := signedInHost(t, s)
			before := s.Asked("/token")
			on.Store(true)
			for range 3 {
				_, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil)
				if text := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(text, tt.want) ||
					tt.again != "" &&
						(protocol.KindOf(err) != protocol.RequirementMissing ||
							!strings.Contains(text, ": "+tt.again+" (")) || strings.ContainsAny(text, "$\x1b") {
					t.Errorf("%q, want %q", text, tt.want)
				}
				if _, err := h.Call(hosttest.Deadline(t), "ext_kid_greet", map[string]any{"name": "Ada"}); err != nil {
					t.Errorf("another extension: %v", err)
				}
			}
			if got := s.Asked("/token") - before; got > tt.renewed || int(sent.Load()) > tt.sent || astray.Load() > 0 {
				t.Errorf("%d requests for tokens, %d of calls, %d astray", got, sent.Load(), astray.Load())
			}
			on.Store(false)
			hosttest.Eventually(t, "the server works again",
				func() bool { _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); return err == nil })
		})
	}
}

// signedInHost opens a host that is signed in to the server gh.
func signedInHost(t testing.TB, s *oauthtest.Servers) *exthost.Host {
	t.Helper()
	h, store, p := remoteLogins(t, s)
	logIn(t, store, p)
	if err := h.Admin().Restart(hosttest.Deadline(t), "gh"); err != nil {
		t.Fatal(err)
	}
	hosttest.Eventually(t, "its tools are listed",
		func() bool { return slices.Contains(hosttest.Names(h), "ext_gh_hello") })
	hosttest.Eventually(t, "its tools can be called",
		func() bool { _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); return err == nil })
	return h
}

// TestAuthorizationServerChanges: when a server switches to another authorization server, the login stays with
// the one where the user signed in, and ends there.
func TestAuthorizationServerChanges(t *testing.T) {
	processtest.Leaks(t)
	var on atomic.Bool
	s, thief := oauthtest.New(t), oauthtest.New(t)
	s.Resource = func(m map[string]any) {
		if on.Load() {
			m["authorization_servers"] = []string{thief.Issuer}
		}
	}
	h := signedInHost(t, s)
	on.Store(true)
	s.Expire()
	if _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); err != nil {
		t.Error(err)
	}
	s.Revoke()
	_, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil)
	if protocol.KindOf(err) != protocol.RequirementMissing ||
		!strings.Contains(err.Error(), ": exthost secret login gh") {
		t.Error(err)
	}
	if thief.Asked("/token") > 0 {
		t.Error("the other authorization server was asked for tokens")
	}
}

// TestSilentAuthorizationServer: while the authorization server hangs, calls end with their contexts and the host
// keeps working. Its late response is used.
func TestSilentAuthorizationServer(t *testing.T) {
	processtest.Leaks(t)
	var on atomic.Bool
	asked, release := make(chan bool), make(chan bool)
	s := oauthtest.New(t)
	s.Token = func(http.ResponseWriter, *http.Request) bool {
		if on.CompareAndSwap(true, false) {
			asked <- true
			<-release
		}
		return false
	}
	h := signedInHost(t, s)
	on.Store(true)
	s.Expire()
	ctx, cancel := context.WithCancel(hosttest.Deadline(t))
	go func() { <-asked; cancel() }()
	if _, err := h.Call(ctx, "ext_gh_hello", nil); err == nil {
		t.Error("the call has succeeded")
	}
	if _, err := h.Call(hosttest.Deadline(t), "ext_kid_greet", map[string]any{"name": "Ada"}); err != nil {
		t.Errorf("another extension: %v", err)
	}
	before, _ := s.Refreshes()
	close(release)
	if _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); err != nil {
		t.Error(err)
	}
	if after, refused := s.Refreshes(); after != before+1 || refused > 0 {
		t.Errorf("%d refreshes, %d refused", after-before, refused)
	}
}

// TestOpenHandshakeWantsLogin: a modern server that fails initialize before it checks the token still needs a
// login.
func TestOpenHandshakeWantsLogin(t *testing.T) {
	processtest.Leaks(t)
	s := oauthtest.New(t)
	s.Server = func(w http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		open := strings.Contains(string(body), `"initialize"`)
		if open {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no version"}}`)
		}
		return open
	}
	h, _, _ := remoteLogins(t, s)
	if x := hosttest.StatusOf(t, h, "gh"); x.State != "failed" || x.Reason != "needs login: exthost secret login gh" {
		t.Errorf("%s: %s", x.State, x.Reason)
	}
}

// TestExpiryInTwoHosts: two hosts with a shared login renew its token once, however many callers find it expired.
func TestExpiryInTwoHosts(t *testing.T) {
	processtest.Leaks(t)
	s, dir := oauthtest.New(t), t.TempDir()
	first, store, p, f := remoteLoginsIn(t, s, dir)
	logIn(t, store, p)
	if err := first.Admin().Restart(hosttest.Deadline(t), "gh"); err != nil {
		t.Fatal(err)
	}
	other := logins.Open(dir, signin.Client)
	t.Cleanup(other.Close)
	hosts := []*exthost.Host{
		first,
		f.Open(exthost.Options{Logins: func(*config.Config) runtime.Logins { return signedIn{other} }}),
	}
	for _, h := range hosts {
		hosttest.Eventually(t, "its tools can be called",
			func() bool { _, err := h.Call(hosttest.Deadline(t), "ext_gh_hello", nil); return err == nil })
	}
	for range 3 {
		before, _ := s.Refreshes()
		s.Expire()
		var wg sync.WaitGroup
		for n := range 64 {
			wg.Go(func() {
				if _, err := hosts[n%2].Call(hosttest.Deadline(t), "ext_gh_hello", nil); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if after, refused := s.Refreshes(); after != before+1 || refused > 0 {
			t.Errorf("%d refreshes, %d refused", after-before, refused)
		}
	}
}
