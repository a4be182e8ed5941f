package signin

import (
	"net/url"
	"strconv"

	"github.com/exthost/exthost/internal/secret/logins"
)

// Browser returns a [Browser] on the configured port, or else on the port of the earlier grant, whose redirect
// URI is registered, or else on any. open shows the user an address.
func (s *Server) Browser(earlier *logins.Grant, open func(address string)) (*Browser, error) {
	if s.Port != 0 {
		return NewBrowser(s.Port, open)
	}
	if b, err := NewBrowser(portOf(earlier), open); err == nil {
		return b, nil
	}
	return NewBrowser(0, open)
}

// portOf returns the port of g's redirect URI, or 0.
func portOf(g *logins.Grant) int {
	if g == nil {
		return 0
	}
	u, err := url.Parse(g.Client.Redirect)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}
