// Package download fetches files from package registries. It accepts only https and public addresses, except for
// registries that the user configured.
package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/proc/sandbox/egress"
	"github.com/exthost/exthost/internal/wire/outbound"
)

const (
	maxRedirects = 5
	timeout      = 5 * time.Minute // per file
)

// Client fetches files. Registries that the user configured may have private addresses, and may use http on this
// machine. If one of them has a private address, on a network that answers for public names itself, the hosts that
// keep its archives may have one as well. Call Close when done.
type Client struct {
	// Credentials are Authorization headers by URL prefix, such as "//host/path/". A header is sent only to URLs
	// with its prefix: over https or to this machine, and not after a redirect to another host.
	Credentials map[string]string

	registries []*url.URL
	http       *http.Client
	rules      outbound.Rules
}

// New returns a client that accepts the registries with these URLs.
func New(registries ...string) (*Client, error) {
	c := &Client{}
	for _, text := range registries {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			// the URL is not quoted, because it may contain a password
			return nil, errors.New("the registry is no address that begins with https://")
		}
		if u.Scheme != "https" && (u.Scheme != "http" || !outbound.Loopback(u.Hostname())) {
			return nil, fmt.Errorf("the registry %s is not reached over https", c.place(u))
		}
		c.registries = append(c.registries, u)
	}
	c.rules.Exempt = c.known
	c.rules.Network = sync.OnceValue(func() bool {
		return slices.ContainsFunc(c.registries,
			func(u *url.URL) bool { return !outbound.Loopback(u.Hostname()) && outbound.Private(u.Hostname()) })
	})
	c.http = &http.Client{Transport: c.rules.Transport(), Timeout: timeout, CheckRedirect: c.redirect}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get returns the content of address. More than limit bytes are an error.
func (c *Client) Get(ctx context.Context, address, accept string, limit int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is no address", address)
	}
	if err := c.allows(u); err != nil {
		return nil, err
	}
	for _, r := range c.registries {
		if u.User == nil && r.Host == u.Host && r.Scheme == u.Scheme {
			u.User = r.User
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	c.authorize(req)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", c.place(u), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &Status{URL: c.place(u), Code: resp.StatusCode}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", c.place(u), err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%s is over %d MiB", c.place(u), limit>>20)
	}
	return data, nil
}

// place formats u for an error, without its parts that may be secret: user and password, query, and the path of a
// registry.
func (c *Client) place(u *url.URL) string {
	plain := *u
	plain.User, plain.RawQuery, plain.Fragment = nil, "", ""
	for _, r := range c.registries {
		if rel, ok := Relative(r, &plain); ok {
			return plain.Scheme + "://" + plain.Host + "/…/" + rel
		}
	}
	return plain.String()
}

// Status is returned for a response other than 200.
type Status struct {
	URL  string
	Code int
}

// Denied reports whether the registry asked for credentials.
func (s *Status) Denied() bool {
	return s.Code == http.StatusUnauthorized || s.Code == http.StatusForbidden
}

func (s *Status) Error() string {
	text := fmt.Sprintf("%s answers %d %s", s.URL, s.Code, http.StatusText(s.Code))
	if s.Denied() {
		text += "; who asks is stated by //HOST/PATH/:_authToken in the user's .npmrc, or for pip by USER:PASSWORD@ " +
			"in index-url or by .netrc"
	}
	return text
}

// authorize adds the credentials for the request's URL.
func (c *Client) authorize(req *http.Request) {
	req.Header.Del("Authorization")
	u := req.URL
	if u.Scheme != "https" && !outbound.Loopback(u.Hostname()) || strings.Contains(u.Path+"/", "/../") ||
		strings.Contains(u.Path+"/", "/./") {
		return
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), map[string]string{"https": ":443", "http": ":80"}[u.Scheme])
	at, longest := "//"+host+u.Path, 0
	for place, value := range c.Credentials {
		if len(place) > longest && (at == place || strings.HasPrefix(at, strings.TrimSuffix(place, "/")+"/")) {
			longest = len(place)
			req.Header.Set("Authorization", value)
		}
	}
}

// Allows returns an error unless the client may fetch from address.
func (c *Client) Allows(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("%q is no address", address)
	}
	return c.allows(u)
}

func (c *Client) allows(u *url.URL) error {
	switch {
	case c.configured(u.Scheme, u.Host):
		return nil
	case u.Scheme != "https":
		return fmt.Errorf("%s is not reached over https", c.place(u))
	case !strings.Contains(u.Hostname(), ".") && !strings.Contains(u.Hostname(), ":"):
		return fmt.Errorf("%s is a host of this network", c.place(u))
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !egress.Public(addr) {
		return fmt.Errorf("%s has a private address", c.place(u))
	}
	return nil
}

// configured reports whether the user configured a registry at this scheme and host.
func (c *Client) configured(scheme, host string) bool {
	for _, r := range c.registries {
		if r.Scheme == scheme && strings.EqualFold(r.Host, host) {
			return true
		}
	}
	return false
}

func (c *Client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("over %d redirects", maxRedirects)
	}
	if err := c.allows(req.URL); err != nil {
		return fmt.Errorf("a redirect is refused: %w", err)
	}
	req.Header.Del("Authorization") // net/http sends it to other ports and subdomains too
	if first := via[0].URL; strings.EqualFold(first.Host, req.URL.Host) && first.Scheme == req.URL.Scheme {
		c.authorize(req)
	}
	return nil
}

// known reports whether address, with its port, belongs to a configured registry.
func (c *Client) known(address string) bool {
	for _, r := range c.registries {
		port := r.Port()
		if port == "" {
			port = map[string]string{"https": "443", "http": "80"}[r.Scheme]
		}
		if strings.EqualFold(net.JoinHostPort(r.Hostname(), port), address) {
			return true
		}
	}
	return false
}

// Relative returns the archive's URL relative to the registry's, without the path elements that both share, such as
// a token. ok is false unless scheme, host and first path element are the same.
func Relative(registry, archive *url.URL) (rel string, ok bool) {
	if !strings.EqualFold(registry.Host, archive.Host) || registry.Scheme != archive.Scheme {
		return "", false
	}
	from := strings.Split(strings.Trim(registry.EscapedPath(), "/"), "/")
	to := strings.Split(strings.TrimPrefix(archive.EscapedPath(), "/"), "/")
	same := 0
	for same < len(from) && same < len(to)-1 && from[same] == to[same] {
		same++
	}
	if same == 0 {
		return "", false
	}
	return strings.Repeat("../", len(from)-same) + strings.Join(to[same:], "/"), true
}
