package signin

import (
	"net/url"
	"strconv"

	"github.com/exthost/exthost/internal/secret/logins"
)

// Browser listens for the browser of a login to s: on the port of s; else on that of the earlier
// grant, for which the client is registered, or any. open shows the user an address.
func (s *Server) Browser(earlier *logins.Grant, open func(address string)) (*Browser, error) {
	if s.Port != 0 {
		return NewBrowser(s.Port, open)
	}
	if b, err := NewBrowser(portOf(earlier), open); err == nil {
		return b, nil
	}
	return NewBrowser(0, open)
}

// portOf returns the port of the address that the browser was sent back to; 0 without one.
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
