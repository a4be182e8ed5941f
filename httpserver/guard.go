package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/wire/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// guard checks requests before they reach the routes.
type guard struct {
	hosts         map[string]bool // names of this server; addresses are checked separately
	origins       []string        // allowed besides this server's own
	cross         *http.CrossOriginProtection
	authenticator *authenticator
	next          http.Handler
}

// newGuard returns the guard of a listener. exposed means that other machines can connect.
func (s *Server) newGuard(listen string, exposed bool, next http.Handler) (*guard, error) {
	o := &s.options
	g := &guard{
		hosts:   map[string]bool{"localhost": true},
		origins: o.AllowedOrigins,
		cross:   http.NewCrossOriginProtection(),
	}
	for _, host := range append(slices.Clone(o.AllowedHosts), listen) {
		if name := hostName(host); name != "" && !isUnspecified(name) {
			g.hosts[name] = true
		}
	}
	for _, origin := range o.AllowedOrigins {
		if err := g.cross.AddTrustedOrigin(origin); err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "allowed origin: %w", err)
		}
	}
	open := o.Token == "" && o.OAuth == nil
	if o.Clients != nil {
		_, unnamed := o.Clients.Unnamed()
		open = open && unnamed
	}
	if exposed && open {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"%s can be reached from other machines: set a token, or listen on 127.0.0.1", listen)
	}
	g.next = s.meterBodies(next)
	g.authenticator = s.newAuthenticator(g.next)
	return g, nil
}

// meterBodies counts request bodies against Options.MaxBodies.
func (s *Server) meterBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, release := s.bodies.Meter(r)
		defer release()
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP passes a request on or refuses it, without revealing anything else about the server.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mcphttp.LimitBody(w, r)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// The request may also have a Content-Length. If a proxy went by that, the bytes after this body are not what
		// the proxy takes for the next request (RFC 9112, 6.1).
		w.Header().Set("Connection", "close")
	}
	if !g.allowsHost(r) {
		http.Error(w, "this server does not go by that Host; see allowed_hosts", http.StatusForbidden)
		return
	}
	if !g.allowsOrigin(r) {
		http.Error(w, "cross-origin request; see allowed_origins", http.StatusForbidden)
		return
	}
	if g.handleCORS(w, r) {
		return // a preflight has no token
	}
	g.authenticator.ServeHTTP(w, r)
}

// allowsHost reports whether the Host header names this server: by a configured name, a loopback address, or the
// connection's local address. Addresses are safe because DNS rebinding needs a name.
func (g *guard) allowsHost(r *http.Request) bool {
	name := hostName(r.Host)
	if g.hosts[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip.Unmap()
}

// hostName returns the name or address in host[:port], in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// isUnspecified reports whether name is 0.0.0.0 or ::. A server may listen there, but must not accept such a Host:
// browsers connect to this machine by these addresses.
func isUnspecified(name string) bool {
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsUnspecified()
}

// allowsOrigin reports whether a request comes from a page of this server, from an allowed origin, or not from a
// browser. GET is checked like POST, because answers contain data too.
func (g *guard) allowsOrigin(r *http.Request) bool {
	if r.Method == http.MethodPost {
		return g.cross.Check(r) == nil
	}
	probe := http.Request{Method: http.MethodPost, URL: r.URL, Host: r.Host, Header: r.Header}
	return g.cross.Check(&probe) == nil
}

// handleCORS lets pages of allowed origins read the answer. It returns true if it has answered a preflight request.
func (g *guard) handleCORS(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if !slices.Contains(g.origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate") // the second tells where to get a token
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Add("Vary", "Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
	return true
}
