// Package signin signs a user in to a remote MCP server with OAuth: it discovers the authorization server, obtains a
// client id, and lets the user approve in a browser (MCP, "Authorization").
package signin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/exthost/exthost/internal/secret/logins"
	"github.com/exthost/exthost/internal/wire/outbound"
)

// Settings configure the OAuth client. Zero values are determined with the authorization server.
type Settings struct {
	ClientID     string
	ClientSecret string
	MetadataURL  string   // of a client metadata document; the URL is the client id
	Scopes       []string // instead of those that the server requests
	Port         int      // of the redirect URI; 0: any
}

// Server is a remote MCP server to sign in to.
type Server struct {
	Place logins.Place
	SSE   bool // legacy HTTP+SSE transport
	Settings
}

// Way is how the user approves: [*Browser], [*Paste] or [*Device].
type Way interface {
	// redirect returns the redirect URI; "" without one.
	redirect() string
	// approve waits for the user's approval and returns the tokens.
	approve(ctx context.Context, f *found, c *oauth2.Config) (*oauth2.Token, error)
}

// SignIn lets the user approve and returns the grant. more are scopes beyond those that the server requests.
// earlier is the current grant, or nil.
func (s *Server) SignIn(ctx context.Context, way Way, more []string, earlier *logins.Grant) (*logins.Grant, error) {
	client := s.client()
	defer client.CloseIdleConnections()
	u, err := url.Parse(s.Place.URL)
	if err != nil || u.Scheme == "http" && !outbound.Private(u.Hostname()) {
		return nil, errors.New("the server is not reached over https://, so that others could read the token on " +
			"its way")
	}
	f, err := s.find(ctx, client)
	if err != nil {
		return nil, err
	}
	c, err := s.register(ctx, client, f, way.redirect(), earlier)
	if err != nil {
		return nil, err
	}
	config := f.config(c, s.scopes(f, more, earlier))
	token, err := way.approve(context.WithValue(ctx, oauth2.HTTPClient, client), f, config)
	if e, ok := errors.AsType[*refusal](err); ok && e.ofClient() && earlier != nil && c == earlier.Client {
		return nil, fmt.Errorf("%w; exthost secret logout %s, and sign in again as another client", err, s.Place.ID)
	}
	if err != nil {
		return nil, err
	}
	return s.granted(ctx, client, f, c, config, token)
}

// granted returns a grant for a token, after checking that the server accepts it.
func (s *Server) granted(ctx context.Context, client *http.Client, f *found, c logins.Client, config *oauth2.Config,
	token *oauth2.Token) (*logins.Grant, error) {
	g := &logins.Grant{
		Place:      s.Place,
		Issuer:     f.authority.Issuer,
		Client:     c,
		Resource:   f.resource,
		TokenURL:   f.authority.TokenEndpoint,
		Revocation: f.authority.RevocationEndpoint,
		Scopes:     config.Scopes,
	}
	if err := g.Accept(token, time.Now()); err != nil {
		return nil, err
	}
	return g, s.try(ctx, client, g.Access)
}

func (f *found) config(c logins.Client, scopes []string) *oauth2.Config {
	return &oauth2.Config{
		ClientID:     c.ID,
		ClientSecret: c.Secret,
		RedirectURL:  c.Redirect,
		Scopes:       scopes,
		Endpoint: oauth2.Endpoint{
			AuthURL:       f.authority.AuthorizationEndpoint,
			TokenURL:      f.authority.TokenEndpoint,
			DeviceAuthURL: f.authority.Device,
			AuthStyle:     c.Style,
		},
	}
}

// offline is the scope that some authorization servers require for a refresh token.
const offline = "offline_access"

// scopes returns the scopes to request: the configured ones, or else those that the server requests; and those in
// more. If more is not empty, it adds the scopes of the earlier grant, which the new grant would otherwise lose.
func (s *Server) scopes(f *found, more []string, earlier *logins.Grant) []string {
	scopes := slices.Clone(s.Scopes)
	if scopes == nil {
		scopes = slices.Clone(f.scopes)
	}
	if len(more) > 0 && earlier != nil && earlier.Issuer == f.authority.Issuer {
		scopes = append(scopes, earlier.Scopes...)
	}
	scopes = append(scopes, more...)
	if s.Scopes == nil && slices.Contains(f.authority.ScopesSupported, offline) {
		scopes = append(scopes, offline)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// Limits of exchanges with untrusted servers.
const (
	exchangeTimeout = 30 * time.Second // per exchange
	maxRedirects    = 3
	maxDocument     = 1 << 20  // bytes of metadata
	maxHeaders      = 64 << 10 // bytes per response
)

func (s *Server) client() *http.Client { return Client(s.Place.URL) }

// Client returns an HTTP client for the authorization server of the MCP server at a URL. It connects to private
// addresses only if that server has a private address, and to this machine only if the URL names this machine,
// because the owner of a name decides where it resolves to.
func Client(server string) *http.Client {
	host, local := "", false
	if u, err := url.Parse(server); err == nil {
		host, local = u.Hostname(), outbound.Loopback(u.Hostname())
	}
	rules := &outbound.Rules{Exempt: func(address string) bool {
		to, _, err := net.SplitHostPort(address)
		return local || err == nil && !outbound.Loopback(to) && outbound.Private(host)
	}}
	t := rules.Transport()
	t.MaxResponseHeaderBytes = maxHeaders
	return &http.Client{Transport: t, Timeout: exchangeTimeout, CheckRedirect: follow}
}

// follow refuses redirects that would send a token to another origin, and redirects of a POST, because the response
// to a POST has to come from the requested server.
func follow(r *http.Request, via []*http.Request) error {
	first := via[0]
	away := first.Header.Get("Authorization") != "" && origin(r.URL) != origin(first.URL)
	if len(via) > maxRedirects || first.Method != http.MethodGet || away || secure(r.URL.String()) != nil {
		return http.ErrUseLastResponse
	}
	return nil
}

// secure returns why a URL from a server is not used, or nil. Secrets are sent to such URLs, and some are shown
// on a terminal or opened in the browser.
func secure(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || strings.ContainsFunc(address, notOfURI):
		return errors.New("it is no address of a server")
	case u.Scheme == "https", u.Scheme == "http" && outbound.Loopback(u.Hostname()):
		return nil
	}
	return errors.New("it does not begin with https://")
}

// notOfURI reports whether c is not allowed in a URI (RFC 3986, section 2).
func notOfURI(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"<>\\^`{|}", c) }

func origin(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }
