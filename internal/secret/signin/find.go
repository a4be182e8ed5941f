package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/exthost/exthost/internal/text/display"
	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/internal/wire/outbound"
	"github.com/exthost/exthost/protocol"
)

// found states where a user signs in, and for which resource and scopes.
type found struct {
	resource  string   // resource of the tokens
	scopes    []string // requested by the server
	authority authority
}

// authority is authorization server metadata (RFC 8414).
type authority struct {
	oauthex.AuthServerMeta
	Device string `json:"device_authorization_endpoint"` // RFC 8628
}

// find discovers the authorization server.
func (s *Server) find(ctx context.Context, client *http.Client) (*found, error) {
	challenge, open, err := s.challenge(ctx, client)
	if err != nil {
		return nil, err
	}
	f, issuer, err := s.resource(ctx, client, challenge["resource_metadata"])
	switch {
	case err != nil:
		return nil, err
	case f == nil && open != nil:
		return nil, open
	case f == nil: // without metadata the server is its own authorization server
		f = &found{resource: s.Place.URL}
	}
	if scope := challenge["scope"]; scope != "" {
		f.scopes = strings.Fields(scope)
	}
	a, err := metadata(ctx, client, issuer)
	if err != nil {
		return nil, fmt.Errorf("the authorization server %s: %w", shown(issuer), err)
	}
	if page, err := url.Parse(a.AuthorizationEndpoint); err != nil || outbound.Loopback(page.Hostname()) && !s.local() {
		return nil, fmt.Errorf("the authorization server %s: the browser is not sent to this machine (%s) for a "+
			"server elsewhere", shown(issuer), shown(a.AuthorizationEndpoint))
	}
	f.authority = *a
	return f, nil
}

// local reports whether the URL names this machine.
func (s *Server) local() bool {
	u, err := url.Parse(s.Place.URL)
	return err == nil && outbound.Loopback(u.Hostname())
}

// plain drops the URL from an HTTP error, because it may contain secrets.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// resource returns the resource and authorization server from the server's protected resource metadata (RFC
// 9728). Without metadata it returns nil and the server's origin.
func (s *Server) resource(ctx context.Context, client *http.Client, named string) (*found, string, error) {
	u, err := url.Parse(s.Place.URL)
	if err != nil {
		return nil, "", errors.New("the url is no address")
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	places := []string{named}
	if named == "" {
		wellKnown := root.JoinPath(".well-known", "oauth-protected-resource")
		places = slices.Compact([]string{wellKnown.JoinPath(u.Path).String(), wellKnown.String()})
	}
	for _, place := range places {
		var m oauthex.ProtectedResourceMetadata
		switch err := document(ctx, client, place, &m); {
		case errors.Is(err, errMissing) && named == "":
			continue
		case err != nil:
			return nil, "", fmt.Errorf("the server's metadata at %s: %w", shown(place), err)
		case !covers(m.Resource, u):
			return nil, "", fmt.Errorf("the server's metadata at %s are for %s, and not for %s: a token for another "+
				"server is not asked for", shown(place), shown(m.Resource), shown(s.Place.URL))
		case len(m.AuthorizationServers) == 0:
			return nil, "", fmt.Errorf("the server's metadata at %s name no authorization server", shown(place))
		}
		return &found{resource: m.Resource, scopes: m.ScopesSupported}, m.AuthorizationServers[0], nil
	}
	return nil, root.String(), nil
}

// covers reports whether a resource is u, or a prefix of u on the same origin.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Fragment != "" || r.RawQuery != "" && r.RawQuery != u.RawQuery || origin(r) != origin(u) {
		return false
	}
	path := strings.TrimSuffix(r.Path, "/")
	return path == strings.TrimSuffix(u.Path, "/") || strings.HasPrefix(u.Path, path+"/")
}

// metadata fetches the metadata of an authorization server.
func metadata(ctx context.Context, client *http.Client, issuer string) (*authority, error) {
	if err := secure(issuer); err != nil {
		return nil, err
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	path := strings.Trim(u.Path, "/")
	places := []string{
		root.JoinPath(".well-known", "oauth-authorization-server", path).String(),
		root.JoinPath(".well-known", "openid-configuration", path).String(),
	}
	if path != "" {
		places = append(places, root.JoinPath(path, ".well-known", "openid-configuration").String())
	}
	for _, place := range places {
		a := new(authority)
		err := document(ctx, client, place, a)
		if errors.Is(err, errMissing) {
			continue
		}
		if err == nil {
			err = a.check(issuer)
		}
		if err != nil {
			return nil, fmt.Errorf("its metadata at %s: %w", place, err)
		}
		return a, nil
	}
	return nil, fmt.Errorf("it has no metadata (%s)", strings.Join(places, ", "))
}

func (a *authority) check(issuer string) error {
	if strings.TrimSuffix(a.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
		return fmt.Errorf("they are of the issuer %s: another server may have put them there", short(a.Issuer))
	}
	if !slices.Contains(a.CodeChallengeMethodsSupported, "S256") {
		return errors.New("they do not offer PKCE with S256 (code_challenge_methods_supported), without which others " +
			"could use the login")
	}
	for _, e := range []struct {
		name, address string
		required      bool
	}{
		{"authorization_endpoint", a.AuthorizationEndpoint, true}, {"token_endpoint", a.TokenEndpoint, true},
		{"registration_endpoint", a.RegistrationEndpoint, false}, {"device_authorization_endpoint", a.Device, false},
		{"revocation_endpoint", a.RevocationEndpoint, false},
	} {
		switch {
		case e.address == "" && e.required:
			return errors.New("they state no " + e.name)
		case e.address == "":
			continue
		}
		if err := secure(e.address); err != nil {
			return fmt.Errorf("the %s %s is refused: %w", e.name, shown(e.address), err)
		}
	}
	return nil
}

// errMissing is returned for a 4xx response.
var errMissing = errors.New("there is none")

// document fetches and decodes a JSON document.
func document(ctx context.Context, client *http.Client, address string, into any) error {
	if err := secure(address); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set(mcphttp.VersionHeader, protocol.MCP20251125)
	resp, err := client.Do(r)
	if err != nil {
		return plain(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		return fmt.Errorf("%w (%s)", errMissing, short(resp.Status))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the answer is %s", short(resp.Status))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil || len(body) > maxDocument {
		return fmt.Errorf("they cannot be read, or have more than %d bytes", maxDocument)
	}
	if json.Unmarshal(body, into) != nil {
		return errors.New("they are not JSON of the expected form")
	}
	return nil
}

// shown returns an address for a message, without user and password.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return short(address)
	}
	u.User = nil
	return short(u.String())
}

// short makes a foreign text printable, on one line of at most 200 bytes.
func short(text string) string {
	return display.Cut(strings.Join(strings.Fields(display.Visible(text)), " "), 200)
}
