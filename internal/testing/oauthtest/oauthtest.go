// Package oauthtest imitates a remote MCP server that wants logins, and its authorization server,
// with the errors that such servers make.
package oauthtest

import (
	"context"
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

// Servers are the MCP server and its authorization server. Their fields must be set before the first request.
type Servers struct {
	URL    string // URL of the MCP server
	Issuer string // URL of the authorization server

	Life       time.Duration // lifetime of access tokens; 0 is an hour
	NoRefresh  bool          // no refresh tokens
	NoRotation bool          // a refresh does not replace the refresh token
	Scopes     string        // scopes that the MCP server asks for
	Secret     bool          // each registered client gets a secret

	Faults
	state
}

// Faults change what the servers do. A nil fault changes nothing.
type Faults struct {
	Challenge func() string                                     // header WWW-Authenticate; nil: it names the metadata
	Resource  func(m map[string]any)                            // changes the metadata of the MCP server
	Metadata  func(m map[string]any)                            // changes the metadata of the authorization server
	Callback  func(q url.Values)                                // changes the query that the browser is sent back with
	Token     func(w http.ResponseWriter, r *http.Request) bool // answers in place of the token endpoint
	Tokens    func(m map[string]any)                            // changes the tokens in answers of the token endpoint
	Any       func(w http.ResponseWriter, r *http.Request) bool // answers in place of the authorization server
	Server    func(w http.ResponseWriter, r *http.Request) bool // answers in place of the MCP server
}

// state is what the servers remember.
type state struct {
	mu        sync.Mutex
	asked     map[string]int        // number of requests to the authorization server, by path
	codes     map[string]url.Values // requests for authorization, by code
	grants    map[string]*grant     // by refresh token, old ones too
	access    map[string]*grant
	clients   map[string]bool
	refreshes int
	refused   int // number of refused refreshes
	devices   map[string]bool
	secrets   []string // all values that have been secret
}

// grant is one login.
type grant struct {
	refresh  []string // refresh tokens so far, the current one last
	used     bool     // a current token was used; who now sends the previous refresh token has stolen it
	access   string
	expires  time.Time
	scope    string
	resource string
	revoked  bool
}

// New starts the servers, which run until the test ends.
func New(t testing.TB) *Servers {
	s := &Servers{
		state: state{
			asked:   map[string]int{},
			codes:   map[string]url.Values{},
			grants:  map[string]*grant{},
			access:  map[string]*grant{},
			clients: map[string]bool{},
			devices: map[string]bool{},
		},
	}
	authority := httptest.NewServer(http.HandlerFunc(s.authority))
	t.Cleanup(authority.Close)
	s.Issuer = authority.URL
	server := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	type none struct{}
	mcp.AddTool(server, &mcp.Tool{Name: "hello", Description: "Says hello."},
		func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	remote := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.remote(w, r, handler)
	}))
	t.Cleanup(remote.Close)
	t.Cleanup(func() {
		for session := range server.Sessions() { // sessions that the client was not allowed to end
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
		m := map[string]any{
			"resource":              s.URL,
			"authorization_servers": []string{s.Issuer},
			"scopes_supported":      strings.Fields(s.Scopes),
		}
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
		w.Header().Set("WWW-Authenticate",
			fmt.Sprintf(`Bearer error="insufficient_scope", scope="%s", resource_metadata="%s%s/mcp"`, s.Scopes, root,
				wellKnown))
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
