package wire

import (
	"net"
	"net/http"
	"net/netip"
)

// proxied are the headers that proxies add.
var proxied = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}

// Remote reports whether a request comes from another machine, by its address or a proxy's header. A connection
// without an address, such as a Unix socket, is local.
func Remote(r *http.Request) bool {
	for _, header := range proxied {
		if r.Header.Get(header) != "" {
			return true
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || from.Addr().Unmap().IsLoopback() {
		return false
	}
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	// A connection from the machine's own network address is local.
	return !ok || at.AddrPort().Addr().Unmap() != from.Addr().Unmap()
}
