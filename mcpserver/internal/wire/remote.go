package wire

import (
	"net"
	"net/http"
	"net/netip"
)

// proxied are the headers by which proxies say that a request is of somebody else.
var proxied = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}

// Remote reports whether a request comes from another machine: by its address, or through a proxy
// that says so. A connection without an address, such as one by a socket file, is of this machine.
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
	// one's own address of the network is this machine
	return !ok || at.AddrPort().Addr().Unmap() != from.Addr().Unmap()
}
