package httpserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/exthost/exthost/mcpserver"
	"github.com/exthost/exthost/protocol"
)

// guard decides who gets through to the routes.
type guard struct {
	hosts   map[string]bool // names this server goes by, besides addresses
	origins []string        // other than its own
	cross   *http.CrossOriginProtection
	token   *[sha256.Size]byte // nil: there is none
	own     *[sha256.Size]byte // the operator's; nil: there is none
	next    http.Handler
}

// Who calls, by the token that was shown.
const (
	tokenCaller    = "token"
	operatorCaller = "operator"
)

func newGuard(o *Options, exposed bool, next http.Handler) (*guard, error) {
	g := &guard{hosts: map[string]bool{"localhost": true}, origins: o.AllowedOrigins,
		cross: http.NewCrossOriginProtection(), next: next}
	for _, host := range append(slices.Clone(o.AllowedHosts), o.Listen) {
		if name := hostName(host); name != "" && !isUnspecified(name) {
			g.hosts[name] = true
		}
	}
	for _, origin := range o.AllowedOrigins {
		if err := g.cross.AddTrustedOrigin(origin); err != nil {
			return nil, protocol.Errorf(protocol.ConfigInvalid, "allowed origin: %w", err)
		}
	}
	if o.Token != "" {
		g.token = new(sha256.Sum256([]byte(o.Token)))
	}
	if o.OperatorToken != "" {
		g.own = new(sha256.Sum256([]byte(o.OperatorToken)))
	}
	if exposed && g.token == nil {
		return nil, protocol.Errorf(protocol.ConfigInvalid,
			"%s can be reached from other machines: set a token, or listen on 127.0.0.1", o.Listen)
	}
	return g, nil
}

// ServeHTTP lets a request through or says why not, and no more than that.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	caller, ok := g.authenticate(r)
	if !ok {
		unauthorized(w, "a valid token is required: Authorization: Bearer …")
		return
	}
	ctx := r.Context()
	if caller != "" {
		ctx = mcpserver.WithCaller(ctx, caller)
	}
	if caller == operatorCaller {
		ctx = WithOperator(ctx, "who has the operator's token")
	}
	g.next.ServeHTTP(w, r.WithContext(ctx))
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
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id")
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

// authenticate returns who is calling. A token that is set must be shown by
// everybody, also on loopback, where other users of the machine are callers; but
// /healthz, which says nothing, is for probes that have none, and the pages of the
// dashboard, which are the same for everybody, for browsers that will show it later.
func (g *guard) authenticate(r *http.Request) (caller string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		sum := sha256.Sum256([]byte(strings.TrimLeft(token, " "))) // of one length, whatever was sent
		if is(sum, g.own) {
			return operatorCaller, true
		}
		if is(sum, g.token) {
			return tokenCaller, true
		}
	}
	return "", g.token == nil || scheme == "" && isOpen(r)
}

func is(shown [sha256.Size]byte, want *[sha256.Size]byte) bool {
	return want != nil && subtle.ConstantTimeCompare(shown[:], want[:]) == 1
}

func isOpen(r *http.Request) bool {
	page := r.Method == http.MethodGet && (r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, "/ui/"))
	return page || r.URL.Path == "/healthz"
}

// operatorOnly lets through who has shown the operator's token, wherever from.
func operatorOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, is := r.Context().Value(operatorKey{}).(string); !is {
			unauthorized(w, "the operator's token is required, which exthost serve makes when it starts: Authorization: Bearer …")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func unauthorized(w http.ResponseWriter, text string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, text, http.StatusUnauthorized)
}
