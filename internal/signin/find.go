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

	"github.com/exthost/exthost/internal/display"
	"github.com/exthost/exthost/internal/logins"
	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// found is where a user signs in to a server.
type found struct {
	resource  string   // that tokens are for
	scopes    []string // that the server asks for
	authority authority
}

// authority is the metadata of an authorization server (RFC 8414).
type authority struct {
	oauthex.AuthServerMeta
	Device string `json:"device_authorization_endpoint"` // RFC 8628
}

// find asks the server where to sign in.
func (s *Server) find(ctx context.Context, client *http.Client) (*found, error) {
	challenge, err := s.challenge(ctx, client)
	if err != nil {
		return nil, err
	}
	f, issuer, err := s.resource(ctx, client, challenge["resource_metadata"])
	if err != nil {
		return nil, err
	}
	if scope := challenge["scope"]; scope != "" {
		f.scopes = strings.Fields(scope)
	}
	a, err := metadata(ctx, client, issuer)
	if err != nil {
		return nil, fmt.Errorf("the authorization server %s: %w", shown(issuer), err)
	}
	f.authority = *a
	return f, nil
}

// probe is a request that every MCP server answers, or refuses for want of a login.
const probe = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + protocol.MCP20251125 + `","capabilities":{},"clientInfo":{"name":"exthost","version":"0"}}}`

// ask sends the probe with a token; "" is none.
func (s *Server) ask(ctx context.Context, client *http.Client, token string) (*http.Response, error) {
	method, body := http.MethodPost, io.Reader(strings.NewReader(probe))
	if s.SSE {
		method, body = http.MethodGet, nil
	}
	r, err := http.NewRequestWithContext(ctx, method, s.Place.URL, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if !s.SSE {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("the server cannot be reached: %w", plain(err))
	}
	return resp, nil
}

// plain is an error of HTTP without the address, which may hold secrets.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// challenge returns the parameters with which the server refuses the probe.
func (s *Server) challenge(ctx context.Context, client *http.Client) (map[string]string, error) {
	resp, err := s.ask(ctx, client, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		if resp.StatusCode < 300 {
			return nil, errors.Join(ErrNone, s.leave(ctx, client, resp))
		}
		return nil, fmt.Errorf("the server answers %s, and asks for no login; check the url", short(resp.Status))
	}
	params, _ := logins.Bearer(resp.Header.Values("WWW-Authenticate"))
	return params, nil
}

// try has the server accept a token.
func (s *Server) try(ctx context.Context, client *http.Client, token string) error {
	resp, err := s.ask(ctx, client, token)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return fmt.Errorf("the server refuses the token that its authorization server has given (%s)", short(resp.Status))
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return fmt.Errorf("the server redirects (%s), which is not followed with a token; make the address where it leads the url", short(resp.Status))
	}
	return s.leave(ctx, client, resp)
}

// leave ends the session that the probe has begun, if it has.
func (s *Server) leave(ctx context.Context, client *http.Client, resp *http.Response) error {
	session := resp.Header.Get(mcphttp.SessionHeader)
	if session == "" {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.Place.URL, nil)
	if err != nil {
		return err
	}
	r.Header.Set(mcphttp.SessionHeader, session)
	if auth := resp.Request.Header.Get("Authorization"); auth != "" {
		r.Header.Set("Authorization", auth)
	}
	if end, err := client.Do(r); err == nil { // servers may refuse to end sessions
		_ = end.Body.Close()
	}
	return nil
}

// resource returns what tokens are for, and the authorization server, as the server's metadata
// state them (RFC 9728). A server without metadata is its own authorization server.
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
			return nil, "", fmt.Errorf("the server's metadata at %s are for %s, and not for %s: a token for another server is not asked for", shown(place), shown(m.Resource), shown(s.Place.URL))
		case len(m.AuthorizationServers) == 0:
			return nil, "", fmt.Errorf("the server's metadata at %s name no authorization server", shown(place))
		}
		return &found{resource: m.Resource, scopes: m.ScopesSupported}, m.AuthorizationServers[0], nil
	}
	return &found{resource: s.Place.URL}, root.String(), nil
}

// covers reports whether a resource is the address u or a part of its server in which u is.
func covers(resource string, u *url.URL) bool {
	r, err := url.Parse(resource)
	if err != nil || r.Fragment != "" || r.RawQuery != "" && r.RawQuery != u.RawQuery || origin(r) != origin(u) {
		return false
	}
	path := strings.TrimSuffix(r.Path, "/")
	return path == strings.TrimSuffix(u.Path, "/") || strings.HasPrefix(u.Path, path+"/")
}

// metadata returns the metadata of an authorization server.
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
	places := []string{root.JoinPath(".well-known", "oauth-authorization-server", path).String(), root.JoinPath(".well-known", "openid-configuration", path).String()}
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

// check refuses metadata that the client cannot rely on.
func (a *authority) check(issuer string) error {
	if strings.TrimSuffix(a.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
		return fmt.Errorf("they are of the issuer %s: another server may have put them there", short(a.Issuer))
	}
	if !slices.Contains(a.CodeChallengeMethodsSupported, "S256") {
		return errors.New("they do not offer PKCE with S256 (code_challenge_methods_supported), without which others could use the login")
	}
	for _, e := range []struct {
		name, address string
		required      bool
	}{
		{"authorization_endpoint", a.AuthorizationEndpoint, true}, {"token_endpoint", a.TokenEndpoint, true},
		{"registration_endpoint", a.RegistrationEndpoint, false}, {"device_authorization_endpoint", a.Device, false}, {"revocation_endpoint", a.RevocationEndpoint, false},
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

// errMissing is the error of a document that is not there.
var errMissing = errors.New("there is none")

// document reads a JSON document.
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

// shown is an address for a message, without what may be secret.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return short(address)
	}
	u.User = nil
	return short(u.String())
}

// short is a foreign text as a person can read it, on one line.
func short(text string) string {
	return display.Cut(strings.Join(strings.Fields(display.Visible(text)), " "), 200)
}
