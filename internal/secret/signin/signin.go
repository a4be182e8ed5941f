// Package signin signs a user in to a remote MCP server: it finds the authorization server, becomes
// its client, and lets the user approve that in a browser (MCP, "Authorization").
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

// Settings are what a manifest or a configuration states about the client. Zero values leave it to
// the authorization server.
type Settings struct {
	ClientID     string
	ClientSecret string
	MetadataURL  string   // of a client metadata document, which then is the client's id
	Scopes       []string // in place of those that the server asks for
	Port         int      // of the address that the browser is sent back to; 0: any
}

// Server is what the user signs in to.
type Server struct {
	Place logins.Place
	SSE   bool // it speaks HTTP with SSE, and no streamable HTTP
	Settings
}

// Way is how the user approves: a [*Browser], [*Paste] or [*Device].
type Way interface {
	// redirect returns the address that the browser is sent back to; "" where it is not.
	redirect() string
	// approve waits until the user has approved the client of c, and returns its tokens.
	approve(ctx context.Context, f *found, c *oauth2.Config) (*oauth2.Token, error)
}

// SignIn returns the grant that the user has approved. More are scopes beside those that the
// server asks for. Earlier is the grant so far; nil: there is none.
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
	config := configOf(f, c, s.scopes(f, more, earlier))
	token, err := way.approve(context.WithValue(ctx, oauth2.HTTPClient, client), f, config)
	if e, ok := errors.AsType[*refusal](err); ok && e.ofClient() && earlier != nil && c == earlier.Client {
		return nil, fmt.Errorf("%w; exthost logout %s, and sign in again as another client", err, s.Place.ID)
	}
	if err != nil {
		return nil, err
	}
	return s.granted(ctx, client, f, c, config, token)
}

// granted returns the grant of a token that the server accepts.
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

func configOf(f *found, c logins.Client, scopes []string) *oauth2.Config {
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

// offline is the scope that some authorization servers want for a refresh token.
const offline = "offline_access"

// scopes returns the scopes to ask for: those that are configured or that the server asks for, and
// with those so far, which a new grant would lose otherwise.
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

// The bounds of exchanges with servers of strangers.
const (
	exchangeTimeout = 30 * time.Second // of one
	maxRedirects    = 3
	maxDocument     = 1 << 20  // bytes of metadata
	maxHeaders      = 64 << 10 // bytes of an answer
)

// client returns a client that follows addresses which the server names: to private ones only where
// the user has named the server there.
func (s *Server) client() *http.Client { return Client(s.Place.URL) }

// Client returns a client for the authorization server of the MCP server at an address. It connects
// to private addresses only where that one has one itself, and to this machine only where that one
// is named as being on this machine: who owns a name decides where the name leads.
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

// follow follows no redirect of what is posted, whose answer has to come from the server that was
// asked, and takes a token to no other server.
func follow(r *http.Request, via []*http.Request) error {
	first := via[0]
	away := first.Header.Get("Authorization") != "" && origin(r.URL) != origin(first.URL)
	if len(via) > maxRedirects || first.Method != http.MethodGet || away || secure(r.URL.String()) != nil {
		return http.ErrUseLastResponse
	}
	return nil
}

// secure returns why an address of a server is not used: what goes there is secret, and some are
// shown on a terminal and given to the browser.
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

// notOfURI reports whether no URI has c (RFC 3986, section 2).
func notOfURI(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune("\"<>\\^`{|}", c) }

// origin returns the scheme and the host of an address.
func origin(u *url.URL) string { return strings.ToLower(u.Scheme + "://" + u.Host) }
