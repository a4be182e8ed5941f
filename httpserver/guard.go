package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/mcphttp"
	"github.com/exthost/exthost/protocol"
)

// guard decides who gets through to the routes.
type guard struct {
	hosts   map[string]bool // names this server goes by, besides addresses
	origins []string        // other than its own
	cross   *http.CrossOriginProtection
	doorman *doorman
	next    http.Handler
}

// newGuard returns the guard of what listens at an address. private says that
// everybody must show who he is, exposed that other machines can connect.
func (s *Server) newGuard(listen string, private, exposed bool, next http.Handler) (*guard, error) {
	o := &s.options
	g := &guard{hosts: map[string]bool{"localhost": true}, origins: o.AllowedOrigins, cross: http.NewCrossOriginProtection()}
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
	if exposed && o.Token == "" && o.OAuth == nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"%s can be reached from other machines: set a token, or listen on 127.0.0.1", listen)
	}
	g.next = s.metered(next)
	g.doorman = s.newDoorman(private, g.next)
	return g, nil
}

// metered has the bodies of requests counted against those of all others.
func (s *Server) metered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, release := s.bodies.Meter(r)
		defer release()
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP lets a request through or says why not, and no more than that.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mcphttp.LimitBody(w, r)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// It may have stated a length too, which something in front has believed: what
		// follows may not be the next request (RFC 9112, 6.1).
		w.Header().Set("Connection", "close")
	}
	if !g.knowsHost(r) {
		http.Error(w, "this server does not go by that Host; see allowed_hosts", http.StatusForbidden)
		return
	}
	if !g.fromHere(r) {
		http.Error(w, "cross-origin request; see allowed_origins", http.StatusForbidden)
		return
	}
	if g.shareWith(w, r) {
		return // a preflight, which carries no token
	}
	g.doorman.ServeHTTP(w, r)
}

// knowsHost reports whether the Host header names this server: by a name it was
// given, by a loopback address, or by the very address that was connected to. An
// address cannot be rebound.
func (g *guard) knowsHost(r *http.Request) bool {
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

// hostName returns the name or address in host[:port], as it is compared.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// isUnspecified reports whether name is 0.0.0.0 or ::, an address to listen on that
// browsers take for this machine when they connect to it.
func isUnspecified(name string) bool {
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsUnspecified()
}

// fromHere reports whether a request is from no browser, from a page of this
// server, or from an allowed origin. Reading is no safer than writing here, so
// the method makes no difference.
func (g *guard) fromHere(r *http.Request) bool {
	probe := http.Request{Method: http.MethodPost, URL: r.URL, Host: r.Host, Header: r.Header}
	return g.cross.Check(&probe) == nil
}

// shareWith lets a page of an allowed origin read the answer. It reports whether
// the request was a browser's question about that, and answered.
func (g *guard) shareWith(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if !slices.Contains(g.origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate") // which leads to an access token
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
