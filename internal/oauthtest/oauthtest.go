// Package oauthtest imitates a remote MCP server that wants logins, and its authorization server,
// with the errors that such servers make.
package oauthtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Servers are the two servers. Its fields may be set before they are asked.
type Servers struct {
	URL    string // of the MCP server
	Issuer string // of the authorization server

	Life       time.Duration // of access tokens; 0 is an hour
	NoRefresh  bool          // no refresh tokens
	NoRotation bool          // refresh tokens stay the same
	Scopes     string        // that the MCP server asks for
	Secret     bool          // the clients that register get secrets

	Challenge func() string                                     // the header WWW-Authenticate; nil names the metadata
	Resource  func(m map[string]any)                            // changes the metadata of the MCP server
	Metadata  func(m map[string]any)                            // changes those of the authorization server
	Callback  func(q url.Values)                                // changes what the browser is sent back with
	Token     func(w http.ResponseWriter, r *http.Request) bool // answers in place of the token endpoint
	Tokens    func(m map[string]any)                            // changes its answers with tokens
	Any       func(w http.ResponseWriter, r *http.Request) bool // answers in place of the authorization server
	Server    func(w http.ResponseWriter, r *http.Request) bool // answers in place of the MCP server

	mu        sync.Mutex
	asked     map[string]int        // the requests to the authorization server, by path
	codes     map[string]url.Values // the requests for authorization
	grants    map[string]*grant     // by refresh token, old ones too
	access    map[string]*grant
	clients   map[string]bool
	refreshes int
	refused   int // refreshes
	devices   map[string]bool
	secrets   []string // that others may not see
}

// grant is one login.
type grant struct {
	refresh  []string // the tokens so far, the current one last
	used     bool     // the current tokens: from then on the earlier refresh token is stolen
	access   string
	expires  time.Time
	scope    string
	resource string
	revoked  bool
}

// New starts the servers, which run until the test ends.
func New(t testing.TB) *Servers {
	s := &Servers{asked: map[string]int{}, codes: map[string]url.Values{}, grants: map[string]*grant{}, access: map[string]*grant{}, clients: map[string]bool{}, devices: map[string]bool{}}
	authority := httptest.NewServer(http.HandlerFunc(s.authority))
	t.Cleanup(authority.Close)
	s.Issuer = authority.URL
	server := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	type none struct{}
	mcp.AddTool(server, &mcp.Tool{Name: "hello", Description: "Says hello."}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.remote(w, r, handler) }))
	t.Cleanup(remote.Close)
	t.Cleanup(func() {
		for session := range server.Sessions() { // whose ends were refused
			_ = session.Close()
		}
	})
	s.URL = remote.URL + "/mcp"
	return s
}

// Refreshes returns how many refreshes have succeeded and how many were refused.
func (s *Servers) Refreshes() (succeeded, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes, s.refused
}

// Asked returns how many requests the authorization server got for a path.
func (s *Servers) Asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// Secrets returns all that has been secret so far: tokens, codes and their verifiers, secrets of clients.
func (s *Servers) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.secrets)
}

// Expire ends all access tokens.
func (s *Servers) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
}

// Revoke ends all logins.
func (s *Servers) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.access)
	for _, g := range s.grants {
		g.revoked = true
	}
}

const wellKnown = "/.well-known/oauth-protected-resource"

// remote is the MCP server.
func (s *Servers) remote(w http.ResponseWriter, r *http.Request, mcp http.Handler) {
	if s.Server != nil && s.Server(w, r) {
		return
	}
	root := "http://" + r.Host
	if strings.HasPrefix(r.URL.Path, wellKnown) {
		m := map[string]any{"resource": s.URL, "authorization_servers": []string{s.Issuer}, "scopes_supported": strings.Fields(s.Scopes)}
		if s.Resource != nil {
			s.Resource(m)
		}
		write(w, http.StatusOK, m)
		return
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	g := s.access[token]
	ok := g != nil && !g.revoked && time.Now().Before(g.expires) && g.resource == s.URL
	enough := ok && covers(g.scope, s.Scopes)
	if ok {
		g.used = true
	}
	s.mu.Unlock()
	switch {
	case !ok:
		challenge := fmt.Sprintf(`Bearer resource_metadata="%s%s/mcp", scope="%s"`, root, wellKnown, s.Scopes)
		if s.Scopes == "" {
			challenge = fmt.Sprintf(`Bearer resource_metadata="%s%s/mcp"`, root, wellKnown)
		}
		if s.Challenge != nil {
			challenge = s.Challenge()
		}
		if challenge != "" {
			w.Header().Set("WWW-Authenticate", challenge)
		}
		http.Error(w, "no", http.StatusUnauthorized)
	case !enough:
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope="%s", resource_metadata="%s%s/mcp"`, s.Scopes, root, wellKnown))
		http.Error(w, "more", http.StatusForbidden)
	default:
		mcp.ServeHTTP(w, r)
	}
}

func covers(has, wants string) bool {
	for _, scope := range strings.Fields(wants) {
		if !slices.Contains(strings.Fields(has), scope) {
			return false
		}
	}
	return true
}

// authority is the authorization server.
func (s *Servers) authority(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	s.mu.Unlock()
	if s.Any != nil && s.Any(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		m := map[string]any{
			"issuer": s.Issuer, "authorization_endpoint": s.Issuer + "/authorize", "token_endpoint": s.Issuer + "/token",
			"registration_endpoint": s.Issuer + "/register", "revocation_endpoint": s.Issuer + "/revoke", "device_authorization_endpoint": s.Issuer + "/device",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"}, "authorization_response_iss_parameter_supported": true,
		}
		if s.Secret {
			m["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
		}
		if s.Metadata != nil {
			s.Metadata(m)
		}
		write(w, http.StatusOK, m)
	case "/register":
		s.register(w, r)
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		if s.Token == nil || !s.Token(w, r) {
			s.token(w, r)
		}
	case "/revoke":
		s.revoke(r.FormValue("token"))
	case "/device":
		code := rand.Text()
		s.mu.Lock()
		s.devices[code] = false
		s.mu.Unlock()
		write(w, http.StatusOK, map[string]any{"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": s.Issuer + "/enter", "expires_in": 600, "interval": 1})
	default:
		http.NotFound(w, r)
	}
}

func (s *Servers) register(w http.ResponseWriter, r *http.Request) {
	var m map[string]any
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		fail(w, "invalid_client_metadata", err.Error())
		return
	}
	m["client_id"] = rand.Text()
	s.mu.Lock()
	if s.Secret {
		m["client_secret"] = "client-secret-" + rand.Text()
		m["client_secret_expires_at"] = 0 // never
		s.secrets = append(s.secrets, m["client_secret"].(string))
	}
	s.clients[m["client_id"].(string)] = true
	s.mu.Unlock()
	write(w, http.StatusCreated, m)
}

// authorize approves at once, and sends the browser back.
func (s *Servers) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rand.Text()
	s.mu.Lock()
	known := s.clients[q.Get("client_id")]
	s.codes[code] = q
	s.secrets = append(s.secrets, code)
	s.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {s.Issuer}}
	if !known || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		back = url.Values{"error": {"invalid_request"}, "state": {q.Get("state")}, "iss": {s.Issuer}}
	}
	if s.Callback != nil {
		s.Callback(back)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (s *Servers) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.FormValue("grant_type") {
	case "authorization_code":
		s.secrets = append(s.secrets, r.FormValue("code_verifier"))
		q := s.codes[r.FormValue("code")]
		delete(s.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if q == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || q.Get("redirect_uri") != r.FormValue("redirect_uri") {
			fail(w, "invalid_grant", "the code is wrong")
			return
		}
		s.answer(w, &grant{scope: q.Get("scope"), resource: r.FormValue("resource")})
	case "refresh_token":
		token := r.FormValue("refresh_token")
		g := s.grants[token]
		current := g != nil && token == g.refresh[len(g.refresh)-1]
		previous := g != nil && len(g.refresh) > 1 && token == g.refresh[len(g.refresh)-2] && !g.used
		if g == nil || g.revoked || !current && !previous {
			if g != nil {
				g.revoked = true // an old token that is used again was stolen
			}
			s.refused++
			fail(w, "invalid_grant", "token "+token+" is not valid")
			return
		}
		if previous { // the answer with the next one was lost
			g.refresh = g.refresh[:len(g.refresh)-1]
		}
		s.refreshes++
		s.answer(w, g)
	case "urn:ietf:params:oauth:grant-type:device_code":
		asked, ok := s.devices[r.FormValue("device_code")]
		s.devices[r.FormValue("device_code")] = true
		switch {
		case !ok:
			fail(w, "invalid_grant", "")
		case !asked:
			fail(w, "authorization_pending", "")
		default:
			s.answer(w, &grant{resource: r.FormValue("resource")})
		}
	default:
		fail(w, "unsupported_grant_type", r.FormValue("grant_type"))
	}
}

// answer gives the next tokens of a grant. s.mu is held.
func (s *Servers) answer(w http.ResponseWriter, g *grant) {
	life := s.Life
	if life == 0 {
		life = time.Hour
	}
	delete(s.access, g.access)
	g.access, g.expires, g.used = "access-"+rand.Text(), time.Now().Add(life), false
	s.access[g.access] = g
	s.secrets = append(s.secrets, g.access)
	out := map[string]any{"access_token": g.access, "token_type": "bearer", "expires_in": int(life.Seconds()), "scope": g.scope}
	if !s.NoRefresh {
		if g.refresh == nil || !s.NoRotation {
			g.refresh = append(g.refresh, "refresh-"+rand.Text())
		}
		token := g.refresh[len(g.refresh)-1]
		s.grants[token], out["refresh_token"] = g, token
		s.secrets = append(s.secrets, token)
	}
	if s.Tokens != nil {
		s.Tokens(out)
	}
	write(w, http.StatusOK, out)
}

func (s *Servers) revoke(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grants[token]; g != nil {
		g.revoked = true
	}
}

func fail(w http.ResponseWriter, code, description string) {
	write(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": description})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
